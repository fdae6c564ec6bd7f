//! Limits of the process: descriptors, processors, and freed memory that it keeps.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// How long a stop of `Group::run_tokio` or of [`Acceptor::accept_until`](crate::Acceptor::accept_until) may take: well within the
/// ten seconds that Docker gives a container.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may wait with its first request when the server stops.
///
/// A client that means to send after 80 ms, the time of a TLS handshake over a long way, was measured to take up to 150 ms where other
/// programs want the processors. Two graces, and the end of 1,000 idle connections, stay under half a second.
pub const FIRST_BYTE_GRACE_DEFAULT: Duration = Duration::from_millis(150);

/// The pause after descriptors or memory ran out, in which others can close something: long enough to cost nothing, and too short
/// to notice.
pub const STARVED_PAUSE: Duration = Duration::from_millis(50);

/// The most workers of a group. No known machine profits from more threads, and each has a socket in every group.
pub const WORKERS_MAX: usize = 1024;

/// The process's limits of open descriptors; `u64::MAX` means no limit.
///
/// ```
/// let limit = bbq_listen::raise_descriptor_limit();
/// println!("{} of at most {} descriptors", limit.soft, limit.hard);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DescriptorLimit {
    /// The limit in force.
    pub soft: u64,
    /// The maximum of the soft limit.
    pub hard: u64,
}

/// Raises the soft limit of open descriptors to the hard one, and returns both. The usual soft limit of 1,024 is for programs
/// that use select(2).
///
/// Call it once at the start. A process that is started from this one inherits the raised limit.
pub fn raise_descriptor_limit() -> DescriptorLimit {
    let before = getrlimit(Resource::Nofile);
    // If the system refuses, the limit stays as it is; the result tells.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    let after = getrlimit(Resource::Nofile);
    DescriptorLimit { soft: after.current.unwrap_or(u64::MAX), hard: after.maximum.unwrap_or(u64::MAX) }
}

/// Allocations of this size and more get a mapping of their own, which goes back to the system as soon as they are freed.
const OWN_MAPPING_BYTES: i32 = 1024 * 1024;
/// Freed memory that stays at the end of each heap, so that temporary buffers need no new mapping each time.
const KEPT_BYTES: i32 = 4 * 1024 * 1024;

/// Returns large allocations to the system when they are freed, for as long as the process runs. By default, glibc raises its mmap
/// threshold with each large allocation that is freed, and keeps pieces of up to 32 MiB in its heaps (mallopt(3),
/// M_MMAP_THRESHOLD): after a burst of clients with large messages, half of their memory is never returned.
///
/// Call it once at the start. With another allocator it has no effect.
pub fn return_freed_memory() {
    crate::sys::set_malloc_thresholds(OWN_MAPPING_BYTES, KEPT_BYTES);
}

/// With little memory: allocations of this size and more get a mapping of their own, and so much stays in each heap.
const OWN_MAPPING_SMALL_BYTES: i32 = 128 * 1024;
const KEPT_SMALL_BYTES: i32 = 256 * 1024;
/// Heaps of all threads together. By default glibc has up to eight for each processor, and each keeps freed memory for its threads
/// alone.
const HEAPS_SMALL_MAX: i32 = 2;

/// Does the same as [`return_freed_memory`] for a process with little memory, at the cost of some speed: it returns smaller allocations as
/// well, and threads share heaps.
pub fn return_all_freed_memory() {
    crate::sys::set_malloc_thresholds(OWN_MAPPING_SMALL_BYTES, KEPT_SMALL_BYTES);
    crate::sys::set_malloc_heaps(HEAPS_SMALL_MAX);
}

/// Milliseconds of a clock that never goes back, some milliseconds old: read once for each batch, and cheaper than the exact time.
pub(crate) fn coarse_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// The default number of workers: one for each processor that this process may use, by its affinity mask and its cgroup's CPU
/// quota.
pub fn worker_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let limit = super::raise_descriptor_limit();
        assert_eq!(limit.soft, limit.hard);
    }

    #[test]
    fn there_is_at_least_one_worker() {
        assert!(super::worker_count() >= 1);
    }
}
