//! A disk that is set back: the data directory of a server, the outputs of the last one, or the spool of a client, are those of an
//! earlier moment again, or empty, as after a restored backup or a new disk. `copies` has those that are copied.
//!
//! What was sent by then and is not in the outputs may be lost, if a server's disk is set back. Everything else is promised as before: what
//! is sent and acknowledged from then on comes out, and no output loses a line that it had. Records that were sent, and
//! not acknowledged until then, may come out twice, and so may all of the client whose spool is set back.

use std::path::Path;

use super::Tiers;
use super::node::{DATA, Node};
use super::older_disk::{SetBack, What};
use crate::client::SPOOL;
use crate::disk::{Cut, SimDisk};
use crate::history::records_of;
use crate::note;
use crate::random::Random;
use crate::server::OUTPUTS;

impl Tiers {
    /// Sets a disk back or copies it, if the time has come.
    pub(super) fn set_back(&mut self) {
        let Some(SetBack { what, from, at }) = self.plan.set_back else { return };
        if from == Some(self.step) {
            self.earlier = Some(self.state_of(what));
        }
        if at != self.step {
            return;
        }
        note!(self.trace, "set back or copied: {what:?}");
        let empty = || SimDisk::new(Random::new(at));
        let earlier = self.earlier.take().unwrap_or_else(empty);
        match what {
            What::Data(node) => self.set_server_back(node, DATA, &earlier),
            What::Output(node) => self.set_server_back(node, OUTPUTS, &earlier),
            What::Spool | What::SpoolBelow => self.set_client_back(what, &earlier),
            What::CopyOfData { node, is_used } => self.copy_data(node, &earlier, is_used),
            What::CopyOfSpool { is_on_machine } => self.copy_spool(&earlier, is_on_machine),
        }
    }

    /// The disk that is set back or copied, as it is now.
    fn state_of(&mut self, what: What) -> SimDisk {
        match what {
            What::Data(node) | What::Output(node) | What::CopyOfData { node, .. } => {
                self.nodes[node].disk.fork()
            }
            What::Spool | What::SpoolBelow => self.clients[0].disk().fork(),
            What::CopyOfSpool { .. } => {
                self.history.copy_spool(0, self.clients[0].made());
                self.clients[0].disk().fork()
            }
        }
    }

    fn set_client_back(&mut self, what: What, earlier: &SimDisk) {
        self.note_set_back();
        if let What::SpoolBelow = what {
            self.clients[0].roll_back(earlier, &mut self.network, &mut self.random);
            self.is_below = true;
        } else {
            self.clients[0].end(Cut::Kill, &mut self.network, &mut self.random);
            self.clients[0].disk().set_back(Path::new(SPOOL), earlier);
        }
        self.history.allow_reuse(0);
    }

    fn set_server_back(&mut self, node: usize, directory: &str, earlier: &SimDisk) {
        self.note_set_back();
        let node = &mut self.nodes[node];
        node.stop(&mut self.network, &mut self.random, &mut self.trace);
        node.disk.set_back(Path::new(directory), earlier);
        node.is_set_back = true;
        let last = &mut self.nodes[self.last];
        // A line that was not synced is no line of an output yet: the cursor is never ahead of it.
        let outputs = last.outputs_on(&last.disk.durable());
        last.kept = outputs.iter().map(|outputs| records_of(outputs)).collect();
        let kept: Vec<_> = last.kept.iter().collect();
        self.history.excuse(&kept);
    }

    fn note_set_back(&mut self) {
        self.unsure.extend(0..self.clients.len());
        // A sender that a server has forgotten may begin another stream with what it has.
        self.history.damage();
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
