//! Planted bugs of sessions and acknowledgements. The program's code is unchanged, but it gets wrong input.

use bbq_spool::Durable;
use bbq_wire::session::{ServerSession, ServerStep};

use super::worker::LIMITS;
use crate::bug::Bug;

/// What a worker learns of its lane.
#[derive(Debug)]
pub(super) struct Told {
    bug: Option<Bug>,
    /// By lane: the last group of which first a part was reported, and then the rest.
    split: Vec<u64>,
}

impl Told {
    pub(super) fn new(bug: Option<Bug>, lanes: usize) -> Told {
        Told { bug, split: vec![0; lanes] }
    }

    pub(super) fn durable(&mut self, lane: usize, durable: Durable) -> Durable {
        match self.bug {
            Some(Bug::AcknowledgeBeforeSync) => Durable { group: durable.group + 1, ..durable },
            // The position of the group is reported before its last batches.
            Some(Bug::SplitGroup) if self.split[lane] < durable.group => {
                self.split[lane] = durable.group;
                Durable { group: durable.group - 1, ..durable }
            }
            _ => durable,
        }
    }
}

/// Removes the epoch of a hello, to simulate a server that ignores epochs. Returns whether there is a hello.
pub(super) fn forget_epoch(arrived: &mut Vec<u8>) -> bool {
    let Ok(ServerStep::Hello { mut hello, consumed }) = ServerSession::new(LIMITS).next(arrived) else {
        return false;
    };
    hello.epoch = 0;
    let mut bytes = Vec::new();
    hello.encode(&mut bytes);
    arrived.splice(..consumed, bytes);
    true
}
