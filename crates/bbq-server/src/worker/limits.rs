//! What a worker lets its connections take.

use crate::config::Config;

/// What a worker lets its connections take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntakeLimits {
    /// From the connection to a whole hello.
    pub(crate) hello_timeout_seconds: u32,
    /// Without a byte in the middle of a batch.
    pub(crate) batch_timeout_seconds: u32,
    /// A connection that is idle for so long may be closed for a new one.
    pub(crate) evict_idle_seconds: u32,
    /// Memory of unfinished batches and messages, of this worker.
    pub(crate) unfinished_bytes_max: usize,
}

impl IntakeLimits {
    /// A worker's share.
    pub(crate) fn of(config: &Config) -> IntakeLimits {
        let share = config.unfinished_bytes_max / config.workers.max(1) as u64;
        IntakeLimits {
            hello_timeout_seconds: config.hello_timeout_seconds,
            batch_timeout_seconds: config.batch_timeout_seconds,
            evict_idle_seconds: config.evict_idle_seconds,
            unfinished_bytes_max: usize::try_from(share).unwrap_or(usize::MAX),
        }
    }
}
