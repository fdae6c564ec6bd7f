//! Whether a blocking `send` surely has room in the queue, so that it need not release the interpreter.
//!
//! Releasing the interpreter is cheap, but getting it back takes 5 ms while other Python threads compute: too long for one log line.
//! bbq-client does not say beforehand whether a `send` will wait. So this module computes a credit from the counters: bytes that surely
//! fit, even if each message began a block of its own and every batch became as large as it can. The credit lasts for a few hundred
//! messages if a queue of the default size is empty; then it is computed again.
//!
//! Invariant: runs only with the interpreter held, so in one thread at a time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use bbq_client::Counters;

/// Memory of a record and its batch beside the record's bytes, rounded up.
const OVERHEAD_BYTES: u64 = 1024;
/// The buffer of a batch is at most this many times as large as its block, as bbq-client keeps no larger buffers.
const GROWTH: u64 = 2;
/// A block of bbq-client is at most this part of its queue.
const BLOCKS_MIN: u64 = 8;
/// A larger message may wait until a server has said how large a message may be.
const MESSAGE_BYTES_SURE: u64 = 1024 * 1024;
/// When the queue is nearly full, the credit is computed only once in this many messages, as that costs as much as ten `send`s.
const SKIPPED: u32 = 64;

pub(crate) struct QueueCredit {
    queue_bytes_max: u64,
    /// Maximum memory of a block.
    block_bytes: u64,
    /// Bytes that surely fit.
    credit: AtomicU64,
    /// The largest message so far, which bounds the size of a queue entry.
    largest: AtomicU64,
    /// Messages for which the credit is still not computed.
    skip: AtomicU32,
}

impl QueueCredit {
    pub(crate) fn new(queue_bytes_max: usize, batch_bytes: usize) -> QueueCredit {
        let queue_bytes_max = queue_bytes_max as u64;
        let block_bytes = (batch_bytes as u64 + OVERHEAD_BYTES).min(queue_bytes_max / BLOCKS_MIN);
        QueueCredit::of(queue_bytes_max, block_bytes)
    }

    /// The credit of an empty queue of the same size.
    pub(crate) fn of_empty_queue(&self) -> QueueCredit {
        QueueCredit::of(self.queue_bytes_max, self.block_bytes)
    }

    fn of(queue_bytes_max: u64, block_bytes: u64) -> QueueCredit {
        let (credit, largest, skip) = Default::default();
        QueueCredit { queue_bytes_max, block_bytes, credit, largest, skip }
    }

    /// Whether a message of this size surely has room. If so, the credit gets smaller.
    #[inline]
    pub(crate) fn take(&self, message_bytes: usize, counters: impl FnOnce() -> Counters) -> bool {
        let cost = self.cost(message_bytes as u64);
        let credit = self.credit.load(Relaxed);
        if message_bytes as u64 >= self.largest.load(Relaxed) || credit < cost {
            return self.compute(message_bytes as u64, counters);
        }
        self.credit.store(credit - cost, Relaxed);
        true
    }

    #[cold]
    fn compute(&self, message_bytes: u64, counters: impl FnOnce() -> Counters) -> bool {
        self.largest.fetch_max(message_bytes + 1, Relaxed);
        let skip = self.skip.load(Relaxed);
        if message_bytes > MESSAGE_BYTES_SURE || skip > 0 {
            self.skip.store(skip.saturating_sub(1), Relaxed);
            self.credit.store(0, Relaxed);
            return false;
        }
        let counters = counters();
        // Each entry has a message or more, and all entries together are not larger than the queue's memory with its spare buffers.
        let entries = counters.queued.saturating_mul(self.cost(self.largest.load(Relaxed)));
        let taken = entries.min(counters.queued_bytes.saturating_mul(GROWTH));
        // One block more, as the sender may add a report of drops.
        let cost = self.cost(message_bytes);
        let needed = taken.saturating_add(cost).saturating_add(self.cost(0));
        let left = self.queue_bytes_max.checked_sub(needed);
        self.credit.store(left.unwrap_or(0), Relaxed);
        if left.is_none() {
            self.skip.store(SKIPPED, Relaxed);
        }
        left.is_some()
    }

    /// Maximum memory of a message in the queue.
    #[inline]
    fn cost(&self, message_bytes: u64) -> u64 {
        GROWTH * self.block_bytes.max(message_bytes + OVERHEAD_BYTES)
    }
}
