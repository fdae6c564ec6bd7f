//! Planted bugs of sessions and acknowledgements. The program's code is unchanged, but it gets wrong input.

use std::collections::HashMap;

use bbq_spool::Durable;
use bbq_wire::session::{ServerSession, ServerStep};
use bbq_wire::{Batch, StreamId};

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

/// For the planted bug "gap is final": of each stream, the newest batch that links have brought.
#[derive(Debug, Default)]
pub(super) struct Newest(HashMap<StreamId, (u64, Vec<u8>)>);

impl Newest {
    /// Replaces batches that come late by the newest one of their stream, which is known then. A server to which a gap is final takes a
    /// late batch for known. `relays` says whether the session is a link's, once its hello has come.
    pub(super) fn forget_late(&mut self, relays: &mut Option<bool>, arrived: &mut Vec<u8>) {
        let mut at = 0;
        if relays.is_none() {
            let Ok(ServerStep::Hello { hello, consumed }) = ServerSession::new(LIMITS).next(arrived) else {
                return;
            };
            (*relays, at) = (Some(hello.relays), consumed);
        }
        if *relays != Some(true) {
            return;
        }
        // Not by a session, which would expect a hello.
        while let Ok(Some(header)) = Batch::peek(&arrived[at..]) {
            let consumed = header.total_bytes();
            if arrived.len() < at + consumed {
                return;
            }
            let (last, newest) = self.0.entry(header.stream).or_default();
            if header.last_sequence() < *last {
                arrived.splice(at..at + consumed, newest.iter().copied());
                at += newest.len();
            } else {
                (*last, *newest) = (header.last_sequence(), arrived[at..at + consumed].to_vec());
                at += consumed;
            }
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
