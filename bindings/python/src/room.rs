//! Whether a blocking `send` is sure to find room, so that it need not release the interpreter.
//!
//! A release costs little alone, but with other threads that compute it is a turn of theirs: 5 ms for one log line. bbq-client
//! does not say beforehand whether a `send` will wait, so this keeps a credit: after a look at the counters so many messages
//! fit, even if each began a block of its own and every block's batch became as large as it can. That is a few hundred from
//! an empty queue of the usual size; then it looks again.
//!
//! Invariant: all of it happens with the interpreter held, one thread at a time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use bbq_client::Counters;

/// What a record and a batch take beside a record's bytes; rounded up.
const OVERHEAD_BYTES: u64 = 1024;
/// A batch's buffer is at most so many times the block it was made of: bbq-client keeps no larger ones.
const GROWTH: u64 = 2;
/// bbq-client's block is at most this part of its queue.
const BLOCKS_MIN: u64 = 8;
/// From here on a message may wait for a server to say what it takes.
const MESSAGE_BYTES_SURE: u64 = 1024 * 1024;
/// After a look that found too little room, so many messages go without one: it costs ten times a `send`.
const SKIPPED: u32 = 64;

pub(crate) struct Room {
    queue_bytes_max: u64,
    /// Memory of a block, at most.
    block_bytes: u64,
    /// Bytes that are sure to be there.
    credit: AtomicU64,
    /// The largest message so far, which says how large an entry of the queue can be.
    largest: AtomicU64,
    skip: AtomicU32,
}

impl Room {
    pub(crate) fn new(queue_bytes_max: usize, batch_bytes: usize) -> Room {
        let queue_bytes_max = queue_bytes_max as u64;
        Room {
            queue_bytes_max,
            block_bytes: (batch_bytes as u64 + OVERHEAD_BYTES).min(queue_bytes_max / BLOCKS_MIN),
            credit: AtomicU64::new(0),
            largest: AtomicU64::new(0),
            skip: AtomicU32::new(0),
        }
    }

    /// The room of another queue of the same size.
    pub(crate) fn again(&self) -> Room {
        Room {
            queue_bytes_max: self.queue_bytes_max,
            block_bytes: self.block_bytes,
            credit: AtomicU64::new(0),
            largest: AtomicU64::new(0),
            skip: AtomicU32::new(0),
        }
    }

    /// Whether a message of so many bytes is sure to find room; then it is taken to be there.
    #[inline]
    pub(crate) fn is_sure(&self, message_bytes: usize, counters: impl FnOnce() -> Counters) -> bool {
        let cost = self.most(message_bytes as u64);
        let credit = self.credit.load(Relaxed);
        if message_bytes as u64 >= self.largest.load(Relaxed) || credit < cost {
            return self.look(message_bytes as u64, counters);
        }
        self.credit.store(credit - cost, Relaxed);
        true
    }

    #[cold]
    fn look(&self, message_bytes: u64, counters: impl FnOnce() -> Counters) -> bool {
        self.largest.fetch_max(message_bytes + 1, Relaxed);
        let skip = self.skip.load(Relaxed);
        if message_bytes > MESSAGE_BYTES_SURE || skip > 0 {
            self.skip.store(skip.saturating_sub(1), Relaxed);
            self.credit.store(0, Relaxed);
            return false;
        }
        let counters = counters();
        // Entries have a message each, or more; and they are not larger than all memory together, spare buffers included.
        let entries = counters.queued.saturating_mul(self.most(self.largest.load(Relaxed)));
        let taken = entries.min(counters.queued_bytes.saturating_mul(GROWTH));
        // One block more: the sender reports drops by itself.
        let cost = self.most(message_bytes);
        let needed = taken.saturating_add(cost).saturating_add(self.most(0));
        let left = self.queue_bytes_max.checked_sub(needed);
        self.credit.store(left.unwrap_or(0), Relaxed);
        if left.is_none() {
            self.skip.store(SKIPPED, Relaxed);
        }
        left.is_some()
    }

    /// Memory that one message brings with it, at most.
    #[inline]
    fn most(&self, message_bytes: u64) -> u64 {
        GROWTH * self.block_bytes.max(message_bytes + OVERHEAD_BYTES)
    }
}
