//! A disk that is set back: the data directory of a server, the outputs of the last one, or the spool of a client, are those of an
//! earlier moment again, or empty, as after a restored backup or a new disk.
//!
//! What was sent by then and is not in the outputs may be lost, if a server's disk is set back. Everything else is promised as before: what
//! is sent and acknowledged from then on comes out, and no output loses a line that it had. Records that were sent, and
//! not acknowledged until then, may come out twice, and so may all of the client whose spool is set back.

use std::path::Path;

use super::Tiers;
use super::node::Node;
use crate::client::SPOOL;
use crate::disk::{Cut, SimDisk};
use crate::history::records_of;
use crate::note;
use crate::random::Random;
use crate::server::OUTPUTS;
use crate::servers::Servers;

/// The directory of a server's messages, cursors and streams.
const DATA: &str = "/data";

/// What is set back.
#[derive(Clone, Copy, Debug)]
enum What {
    /// The data directory of a server.
    Data(usize),
    /// The outputs of the last server.
    Output(usize),
    /// The spool of the first client.
    Spool,
}

/// What is set back, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetBack {
    what: What,
    /// The step of the state that is restored; `None` for an empty directory.
    from: Option<u64>,
    /// The step at which it is restored.
    at: u64,
}

impl SetBack {
    /// Draws what is set back among so many servers. `clients` are the servers of the clients.
    pub(super) fn new(random: &mut Random, nodes: usize, clients: Servers, steps: u64) -> SetBack {
        let at = random.between(steps / 4, steps * 9 / 10);
        let what = match random.below(4) {
            0 => What::Output(nodes - 1),
            // A client that uses numbers again that another server knows cannot notice it.
            1 if clients.second.is_none() => What::Spool,
            _ => What::Data(random.index(nodes)),
        };
        SetBack { what, from: (!random.one_in(4)).then(|| random.below(at)), at }
    }
}

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
