//! Numbers that the next server does not take, while it takes others: it cannot tell whether it has them
//! ([`bbq_wire::ranges::Check::Unsure`]).
//!
//! Their batches are held: passed over, while later batches go on. Groups of which nothing but held batches is left are set aside, and
//! leave their room to others, as far as the limits here allow. What is held is offered again after a while, and to each server that the
//! link connects to after a failure.
//!
//! Invariant: a group with held batches is not settled, so the cursor stays before it, and a restart sends it again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bbq_sink::SetAside;
use bbq_wire::session::UnsureNumbers;
use bbq_wire::{BatchHeader, Span};

/// Most streams with held numbers: each batch is compared with all of them, and each costs a connection that the server ends. With more, the
/// link stands still until the server takes them.
pub(super) const STREAMS_MAX: usize = 64;
/// Most times that something is held before everything is offered again: a server that refuses more and more could go on for ever.
const REFUSALS_MAX: usize = 1024;
/// After this time the server is asked again, which costs a connection for each of the streams.
pub(super) const HELD_FOR: Duration = Duration::from_secs(60);

/// The numbers that are not to be sent now.
#[derive(Default)]
pub(super) struct HeldNumbers {
    /// Of a stream each.
    of_streams: Vec<UnsureNumbers>,
    /// How often numbers were added.
    refusals: usize,
}

impl HeldNumbers {
    pub(super) fn is_empty(&self) -> bool {
        self.of_streams.is_empty()
    }

    /// Whether the batch has such a number: the server refuses it as a whole.
    pub(super) fn has(&self, batch: &BatchHeader) -> bool {
        let numbers = Span { first: batch.first_sequence, last: batch.last_sequence() };
        self.of_streams.iter().any(|held| held.stream == batch.stream && held.numbers.meets(numbers))
    }

    /// Adds what the server refuses. `false` if that is held already, or there is too much: then the link has to pause.
    pub(super) fn add(&mut self, refused: UnsureNumbers) -> bool {
        self.refusals += 1;
        if self.refusals > REFUSALS_MAX {
            return false;
        }
        let has_room = self.of_streams.len() < STREAMS_MAX;
        match self.of_streams.iter_mut().find(|held| held.stream == refused.stream) {
            Some(held) => {
                let before = held.numbers;
                held.numbers.first = before.first.min(refused.numbers.first);
                held.numbers.last = before.last.max(refused.numbers.last);
                held.numbers != before
            }
            None if has_room => {
                self.of_streams.push(refused);
                true
            }
            None => false,
        }
    }

    pub(super) fn clear(&mut self) {
        *self = HeldNumbers::default();
    }
}

/// What the sink sees of held batches.
#[derive(Clone, Default)]
pub(super) struct HeldCounts(Arc<Counts>);

#[derive(Default)]
struct Counts {
    groups: AtomicUsize,
    bytes: AtomicUsize,
    /// What the server says of the last one that it refused, while any is held.
    why: Mutex<Option<String>>,
}

impl HeldCounts {
    fn why(&self) -> MutexGuard<'_, Option<String>> {
        self.0.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all.
    pub(super) fn clear(&self) {
        self.set_aside(SetAside::default());
        *self.why() = None;
    }

    /// Sets what is set aside.
    pub(super) fn set_aside(&self, SetAside { groups, bytes }: SetAside) {
        self.0.groups.store(groups, Ordering::Relaxed);
        self.0.bytes.store(bytes, Ordering::Relaxed);
    }

    /// What is set aside.
    pub(super) fn aside(&self) -> SetAside {
        let Counts { groups, bytes, .. } = &*self.0;
        SetAside { groups: groups.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) }
    }

    pub(super) fn set_why(&self, why: Option<String>) {
        *self.why() = why;
    }

    /// The problem, for people.
    pub(super) fn problem(&self) -> Option<String> {
        let why = self.why().clone()?;
        let groups = self.aside().groups;
        Some(format!(
            "the next server does not take some messages of a stream, and {groups} groups of the spool wait with them; other messages are \
             passed on: {why}; to give the messages up, skip them (bbq sink skip)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use bbq_wire::StreamId;

    use super::*;

    #[test]
    fn streams_are_held_up_to_a_limit_and_each_is_told_once() {
        let mut held = HeldNumbers::default();
        let refused = |stream: usize, first, last| UnsureNumbers {
            stream: StreamId((stream as u128).to_be_bytes()),
            numbers: Span { first, last },
        };
        assert!((0..STREAMS_MAX).all(|stream| held.add(refused(stream, 5, 9))));
        assert!(!held.add(refused(STREAMS_MAX, 5, 9)), "there is no room");
        assert!(held.add(refused(3, 8, 20)) && !held.add(refused(3, 8, 20)), "it is held already");
        assert_eq!(held.of_streams[3], refused(3, 5, 20));
        assert!(!(21..2000).all(|last| held.add(refused(3, 5, last))), "it refuses more and more");
        held.clear();
        assert!(held.is_empty() && held.add(refused(STREAMS_MAX, 5, 9)));
    }
}
