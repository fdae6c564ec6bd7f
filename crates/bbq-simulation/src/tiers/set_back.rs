//! A disk that is set back: the data directory of a server, the outputs of the last one, or the spool of a client, are those of an
//! earlier moment again, or empty, as after a restored backup or a new disk.
//!
//! What was sent by then and is not in the outputs may be lost, if a server's disk is set back. Everything else is promised as before: what
//! is sent and acknowledged from then on comes out, and no output loses a line that it had. Records that were sent, and
//! not acknowledged until then, may come out twice, and so may all of the client whose spool is set back.

use std::path::Path;

use super::Tiers;
use super::node::Node;
use super::older_disk::{SetBack, What};
use crate::client::SPOOL;
use crate::disk::{Cut, SimDisk};
use crate::history::records_of;
use crate::note;
use crate::random::Random;
use crate::server::OUTPUTS;

/// The directory of a server's messages, cursors and streams.
const DATA: &str = "/data";

impl Tiers {
    /// Sets a disk back, if the time has come.
    pub(super) fn set_back(&mut self) {
        let Some(SetBack { what, from, at }) = self.plan.set_back else { return };
        if from == Some(self.step) {
            self.earlier = Some(match what {
                What::Data(node) | What::Output(node) => self.nodes[node].disk.fork(),
                What::Spool => self.clients[0].disk().fork(),
            });
        }
        if at != self.step {
            return;
        }
        note!(self.trace, "set back: {what:?}");
        self.is_set_back = true;
        // A sender that a server has forgotten may begin another stream with what it has.
        self.history.damage();
        let empty = || SimDisk::new(Random::new(at));
        let earlier = self.earlier.take().unwrap_or_else(empty);
        let (node, directory) = match what {
            What::Data(node) => (node, DATA),
            What::Output(node) => (node, OUTPUTS),
            What::Spool => {
                self.clients[0].end(Cut::Kill, &mut self.network, &mut self.random);
                self.clients[0].disk().set_back(Path::new(SPOOL), &earlier);
                self.history.allow_reuse(0);
                return;
            }
        };
        let node = &mut self.nodes[node];
        node.stop(&mut self.network, &mut self.random, &mut self.trace);
        node.disk.set_back(Path::new(directory), &earlier);
        node.is_set_back = true;
        if let Some(last) = self.nodes.last_mut() {
            last.kept = last.outputs().iter().map(|outputs| records_of(outputs)).collect();
            let kept: Vec<_> = last.kept.iter().collect();
            self.history.excuse(&kept);
        }
    }
}

impl Node {
    /// Whether an output misses a line that it had when a disk was set back.
    pub(super) fn lost_line(&self) -> Option<String> {
        let now = self.outputs();
        self.kept.iter().zip(&now).enumerate().find_map(|(sink, (kept, now))| {
            let now = records_of(now);
            let first = kept.difference(&now).next()?;
            let lost = kept.difference(&now).count();
            Some(format!(
                "sink {sink} lost {lost} of {} lines that it had, the first is {first:?}",
                kept.len()
            ))
        })
    }
}
