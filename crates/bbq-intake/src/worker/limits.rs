//! Time and memory that a worker allows its connections.

/// Maximum bytes of one read: as many as a batch should have, and few enough for the second-level cache.
pub(crate) const READ_BYTES: usize = 256 * 1024;
/// Size of the spare buffers that are kept for unfinished batches.
pub(crate) const SPARE_BUFFER_BYTES: usize = 2 * READ_BYTES;
/// Spare buffers kept for unfinished batches. If more sessions than this are in the middle of a batch at once, the others allocate.
const SPARE_BUFFERS_MAX: usize = 16;
/// They take at most this part of the memory of unfinished batches.
const SPARES_PART: u64 = 8;

/// What is configured for all workers together.
#[derive(Clone, Copy, Debug)]
pub struct ConfiguredLimits {
    /// Time from the connection to a complete hello.
    pub hello_timeout_seconds: u32,
    /// Time without a byte in the middle of a batch.
    pub batch_timeout_seconds: u32,
    /// Time after which an idle connection may be closed to make room for a new one.
    pub evict_idle_seconds: u32,
    /// Memory for unfinished batches and messages of all workers.
    pub unfinished_bytes_max: u64,
    /// How many workers share it.
    pub workers: usize,
    /// Connections get small buffers.
    pub has_little_memory: bool,
}

/// Time and memory that a worker allows its connections.
#[derive(Clone, Copy, Debug)]
pub struct IntakeLimits {
    /// Time from the connection to a complete hello.
    pub(crate) hello_timeout_seconds: u32,
    /// Time without a byte in the middle of a batch.
    pub(crate) batch_timeout_seconds: u32,
    /// Time after which an idle connection may be closed to make room for a new one.
    pub(crate) evict_idle_seconds: u32,
    /// Memory for unfinished batches and messages of this worker.
    pub(crate) unfinished_bytes_max: usize,
    /// Spare buffers for unfinished batches.
    pub(crate) spare_buffers_max: usize,
    /// Connections get small buffers.
    pub(crate) has_little_memory: bool,
}

impl IntakeLimits {
    /// One worker's share of the configured limits.
    #[must_use]
    pub fn of_worker(configured: &ConfiguredLimits) -> IntakeLimits {
        let share = configured.unfinished_bytes_max / configured.workers.max(1) as u64;
        IntakeLimits {
            hello_timeout_seconds: configured.hello_timeout_seconds,
            batch_timeout_seconds: configured.batch_timeout_seconds,
            evict_idle_seconds: configured.evict_idle_seconds,
            unfinished_bytes_max: usize::try_from(share).unwrap_or(usize::MAX),
            spare_buffers_max: usize::try_from(share / SPARES_PART / SPARE_BUFFER_BYTES as u64)
                .unwrap_or(SPARE_BUFFERS_MAX)
                .min(SPARE_BUFFERS_MAX),
            has_little_memory: configured.has_little_memory,
        }
    }
}
