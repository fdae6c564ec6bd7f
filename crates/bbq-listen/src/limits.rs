//! What the process may use: descriptors and processors; and what it keeps of memory that it has freed.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Workers of one group. More threads than this help no machine we know of, and each has a socket in every group.
pub const WORKERS_MAX: usize = 1024;

/// The process's limit of open descriptors; `u64::MAX` means that there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorLimit {
    /// What applies now.
    pub soft: u64,
    /// What the soft limit may be raised to.
    pub hard: u64,
}

/// Raises the soft limit of open descriptors to the hard one and returns both as they are afterwards. A soft limit of
/// 1,024 is kept for programs that use select(2), and we do not.
///
/// Call it once at the start. A process that is started from this one inherits the raised limit.
pub fn raise_descriptor_limit() -> DescriptorLimit {
    let before = getrlimit(Resource::Nofile);
    // Where raising is refused the limit stays as it is, and the answer says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    let after = getrlimit(Resource::Nofile);
    DescriptorLimit { soft: after.current.unwrap_or(u64::MAX), hard: after.maximum.unwrap_or(u64::MAX) }
}

/// Allocations of this size and more get a mapping of their own, which goes back to the system as soon as they are freed.
const OWN_MAPPING_BYTES: i32 = 1024 * 1024;
/// So much freed memory stays at the end of each heap, so that buffers which come and go are not mapped anew each time.
const KEPT_BYTES: i32 = 4 * 1024 * 1024;

/// Lets large allocations go back to the system when they are freed, for as long as the process runs. Left alone, glibc takes
/// each large allocation that is freed for a sign that more will follow, and keeps up to 32 MiB pieces in its heaps from then
/// on (mallopt(3), M_MMAP_THRESHOLD): after a burst of clients with large messages, half of their memory stays for good.
///
/// Call it once at the start. With another allocator it has no effect.
pub fn return_freed_memory() {
    crate::sys::set_malloc_thresholds(OWN_MAPPING_BYTES, KEPT_BYTES);
}

/// Workers to start when nobody says how many: one per processor that this process may use. That honours the affinity
/// mask and the cgroup's CPU quota, so a container limited to two processors on a large host gets two.
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
