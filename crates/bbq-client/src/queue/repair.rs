//! Changes a batch that a server refused, so that the server does not refuse it for ever.

use std::sync::Arc;

use bbq_wire::batch::crc32c;
use bbq_wire::session::RefusalCode;

use super::Queue;
use super::state::State;
use crate::queue::block::Body;

/// What was done about a refused batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    /// Nothing: the batch is sent again.
    None,
    /// The batch's bytes had changed in memory; it is built again from the spool.
    Rebuilt,
    /// The batch's bytes had changed in memory; this many records are given up.
    Damaged(u64),
    /// The server does not take the batch's only record, which is given up.
    Refused,
}

impl Queue {
    /// Repairs the first batch that the destination's server has not acknowledged, as the server refused it.
    pub(crate) fn repair(&self, destination: usize, code: RefusalCode) -> Repair {
        let mut state = self.locked();
        let repair = self.repair_first(&mut state, destination, code);
        drop(state);
        // Records may have been given up.
        self.progressed.notify_all();
        self.room.notify_all();
        repair
    }

    fn repair_first(&self, state: &mut State, destination: usize, code: RefusalCode) -> Repair {
        let current = &state.destinations[destination];
        let (acknowledged, sent, numbering) = (current.acknowledged, current.sent, current.numbering());
        let at = state.entries.partition_point(|entry| entry.last() <= acknowledged);
        let Some(entry) = state.entries.get_mut(at).filter(|entry| entry.first <= sent) else {
            return Repair::None;
        };
        let (first, records, largest, stored) =
            (entry.first, entry.records, entry.largest, entry.extent.is_some());
        let Body::Batch(bytes) = &entry.body else { return Repair::None };
        let bytes = Arc::clone(bytes);
        match code {
            RefusalCode::Checksum if is_intact(&bytes) => Repair::None,
            RefusalCode::Checksum if stored => {
                let charge = std::mem::take(&mut entry.charge);
                entry.body = Body::Stored;
                state.charged -= charge;
                Repair::Rebuilt
            }
            RefusalCode::Checksum => {
                state.replace(at, Vec::new(), largest);
                Repair::Damaged(u64::from(records))
            }
            RefusalCode::MessageTooLarge | RefusalCode::BatchTooLarge if records > 1 => {
                // The server then takes or refuses each half by itself.
                let parts = self.packing(numbering).halves(&bytes, first, records);
                state.replace(at, parts, largest);
                Repair::None
            }
            RefusalCode::MessageTooLarge | RefusalCode::BatchTooLarge => {
                state.replace(at, Vec::new(), largest);
                Repair::Refused
            }
            _ => Repair::None,
        }
    }
}

/// Whether the checksum of a batch is right.
fn is_intact(batch: &[u8]) -> bool {
    let crc = batch.get(4..).and_then(<[u8]>::first_chunk).copied().map(u32::from_le_bytes);
    crc.is_some_and(|crc| crc == crc32c(&batch[8..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OnFull;
    use crate::environment::System;
    use crate::intake::Intake;
    use crate::options::Options;
    use crate::queue::Next;
    use crate::spool::Recovered;
    use bbq_wire::StreamId;

    /// A queue with one batch in flight, of the records "0", "1", ...
    fn queue(records: u8) -> Queue {
        let before = Recovered::nothing(StreamId([7; 16]), 1).destinations.into_iter();
        let queue =
            Queue::new(&Options::default(), Arc::new(System), 1, before.map(|before| (before, vec![1])));
        let intake = Intake::new(OnFull::DropNewest, None);
        (0..records).for_each(|record| intake.push(&queue, &[b'0' + record]).unwrap());
        intake.collect(&queue);
        queue.connected(0, 0, 0, (1 << 20, 1 << 20));
        assert!(matches!(queue.next(0), Next::Send(_, last) if last == u64::from(records)));
        queue
    }

    fn change_a_byte(queue: &Queue) {
        let mut state = queue.locked();
        let Body::Batch(bytes) = &mut state.entries[0].body else { panic!("it was made") };
        let mut changed = bytes.to_vec();
        *changed.last_mut().unwrap() ^= 1;
        *bytes = Arc::new(changed);
    }

    #[test]
    fn a_batch_that_changed_on_the_way_is_sent_again_and_one_that_changed_in_memory_is_not() {
        let queue = queue(3);
        assert_eq!(queue.repair(0, RefusalCode::Checksum), Repair::None);
        assert_eq!(queue.locked().queued().0, 3);
        change_a_byte(&queue);
        assert_eq!(queue.repair(0, RefusalCode::Checksum), Repair::Damaged(3));
        let state = queue.locked();
        assert_eq!((state.queued().0, state.abandoned), (0, 3));
    }

    #[test]
    fn a_message_that_is_too_large_is_found_and_goes_alone() {
        let queue = queue(8);
        let mut refused = 0;
        // The server takes everything but record 6.
        loop {
            queue.connected(0, 0, queue.acknowledged_by(0), (1 << 20, 1 << 20));
            match queue.next(0) {
                Next::Send(_, last) if last < 6 || queue.acknowledged_by(0) >= 6 => {
                    queue.acknowledged(0, last);
                }
                Next::Send(..) => {
                    refused += 1;
                    if queue.repair(0, RefusalCode::MessageTooLarge) == Repair::Refused {
                        queue.acknowledged(0, 6);
                    }
                }
                _ => break,
            }
        }
        let state = queue.locked();
        assert_eq!((state.acknowledged, state.abandoned, refused), (7, 1, 4));
    }
}
