//! How large a transaction may be.

use std::time::Duration;

/// The largest: messages, and bytes unless one message is larger. With small ones, a commit takes longer than the messages; librdkafka
/// keeps the messages in memory, with 200 bytes of its own for each.
pub(super) const TRANSACTION_MESSAGES_MAX: usize = 128 * 1024;
pub(super) const TRANSACTION_BYTES_MAX: usize = 16 * 1024 * 1024;
/// After transactions that failed they are smaller, but not smaller than this: one that always takes longer than the brokers wait
/// would be begun again for ever.
const TRANSACTION_MESSAGES_MIN: usize = 64;
const TRANSACTION_BYTES_MIN: usize = 64 * 1024;
/// A larger one is tried only after one that took a smaller part of the time-out than this: twice as much then takes half of it.
const GROWS_WITHIN: u32 = 4;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TransactionSize {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

impl TransactionSize {
    pub(super) fn largest() -> TransactionSize {
        TransactionSize { messages: TRANSACTION_MESSAGES_MAX, bytes: TRANSACTION_BYTES_MAX }
    }

    /// The brokers took a transaction in this time. A small one says nothing of larger ones.
    pub(super) fn taken(&mut self, of: TransactionSize, took: Duration, timeout: Duration) {
        let is_large = of.messages > self.messages / 2 || of.bytes > self.bytes / 2;
        if is_large && took < timeout / GROWS_WITHIN {
            self.messages = (self.messages * 2).min(TRANSACTION_MESSAGES_MAX);
            self.bytes = (self.bytes * 2).min(TRANSACTION_BYTES_MAX);
        }
    }

    /// One failed.
    pub(super) fn shrink(&mut self) {
        self.messages = (self.messages / 2).max(TRANSACTION_MESSAGES_MIN);
        self.bytes = (self.bytes / 2).max(TRANSACTION_BYTES_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Brokers behind 200 KB/s, and 60 s until they end a transaction.
    #[test]
    fn a_slow_way_to_the_brokers_gets_one_size_that_fits() {
        const BYTES_PER_SECOND: usize = 200_000;
        let timeout = Duration::from_mins(1);
        let mut size = TransactionSize::largest();
        let mut failed = 0;
        for _ in 0..100 {
            let took = Duration::from_secs((size.bytes / BYTES_PER_SECOND) as u64);
            if took > timeout {
                failed += 1;
                size.shrink();
            } else {
                size.taken(size, took, timeout);
                // The last one of a burst.
                size.taken(TransactionSize { messages: 1, bytes: 100 }, Duration::from_millis(1), timeout);
            }
        }
        assert_eq!((failed, size.bytes), (1, TRANSACTION_BYTES_MAX / 2));
        // Behind a fast one it grows again.
        for _ in 0..2 {
            size.taken(size, Duration::from_secs(1), timeout);
        }
        assert_eq!(size, TransactionSize::largest());
        for _ in 0..100 {
            size.shrink();
        }
        assert_eq!((size.messages, size.bytes), (TRANSACTION_MESSAGES_MIN, TRANSACTION_BYTES_MIN));
    }
}
