//! Time and memory that a worker allows its connections.

use crate::config::Config;

/// Time and memory that a worker allows its connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntakeLimits {
    /// Time from the connection to a complete hello.
    pub(crate) hello_timeout_seconds: u32,
    /// Time without a byte in the middle of a batch.
    pub(crate) batch_timeout_seconds: u32,
    /// Time after which an idle connection may be closed to make room for a new one.
    pub(crate) evict_idle_seconds: u32,
    /// Memory for unfinished batches and messages of this worker.
    pub(crate) unfinished_bytes_max: usize,
}

impl IntakeLimits {
    /// One worker's share of the configured limits.
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
