//! The newest durable groups of a lane, still in memory: a reader that keeps up takes them from here, without a system call,
//! a copy or a second look at the checksums.
//!
//! Invariant: nothing depends on it. What is not here is read from the segments.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::format::{GroupFrame, Sources};
use crate::limits::HOT_GROUPS_MAX;
use bbq_storage::direct::AlignedBuffer;

/// A group as it was written.
pub(crate) struct HotGroup {
    /// Where a reader stands who has read all before it: at its frame, or at the header of the segment that it begins.
    pub(crate) from: u64,
    pub(crate) frame: GroupFrame,
    /// Frame and entries.
    pub(crate) bytes: AlignedBuffer,
    /// What the entries' sources are called.
    pub(crate) sources: Arc<Sources>,
}

pub(crate) struct Hot {
    bytes_max: usize,
    group_bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    groups: VecDeque<Arc<HotGroup>>,
    /// Buffers of groups that nobody reads any more. Memory that is new must be mapped page by page, which costs more than
    /// what is copied into it.
    spares: Vec<AlignedBuffer>,
}

/// The part of the memory that is for spare buffers: groups differ in size by the disk's moods, and a single large one takes
/// the place of many. With a quarter there were twice as many page faults.
const SPARES_SHARE: usize = 2;

impl Hot {
    /// Keeps groups and spare buffers of up to `bytes_max` bytes together, or one spare buffer if that is larger. Groups
    /// mostly have up to `group_bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize, group_bytes_max: usize) -> Hot {
        Hot { bytes_max, group_bytes_max, kept: Mutex::default() }
    }

    fn locked(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer for a group that will probably have so many bytes. It takes any group without moving but one of a very large
    /// batch; what is not written to is not taken.
    pub(crate) fn buffer(&self, bytes: usize) -> AlignedBuffer {
        let spares = &mut self.locked().spares;
        // The smallest of those that were large enough before, or the largest.
        let key = |index: &usize| {
            let used = spares[*index].used();
            if used >= bytes { (0, used) } else { (1, usize::MAX - used) }
        };
        match (0..spares.len()).min_by_key(key) {
            Some(index) => spares.remove(index),
            None => AlignedBuffer::with_capacity(self.group_bytes_max),
        }
    }

    /// Adds the newest group.
    pub(crate) fn push(&self, group: HotGroup) {
        let spare_bytes_max = self.bytes_max / SPARES_SHARE;
        let mut kept = self.locked();
        let Kept { groups, spares } = &mut *kept;
        groups.push_back(Arc::new(group));
        let mut bytes: usize = groups.iter().map(|group| group.bytes.used()).sum();
        while bytes > self.bytes_max - spare_bytes_max || groups.len() > HOT_GROUPS_MAX {
            let Some(oldest) = groups.pop_front() else { break };
            bytes -= oldest.bytes.used();
            spares.extend(Arc::try_unwrap(oldest).ok().map(|group| group.bytes));
        }
        // The newest stay: they have the size that groups have now.
        let mut bytes: usize = spares.iter().map(AlignedBuffer::used).sum();
        while spares.len() > 1 && bytes > spare_bytes_max {
            bytes -= spares.remove(0).used();
        }
    }

    /// The group that a reader at `position` reads next.
    pub(crate) fn at(&self, position: u64) -> Option<Arc<HotGroup>> {
        let groups = &self.locked().groups;
        let index = groups.binary_search_by_key(&position, |group| group.from).ok()?;
        groups.get(index).cloned()
    }
}
