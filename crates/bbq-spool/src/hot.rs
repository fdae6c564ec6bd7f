//! The newest durable groups of a lane, still in memory: a reader that keeps up takes them from here, without a system call,
//! a copy or a second look at the checksums.
//!
//! Invariant: nothing depends on it. What is not here is read from the segments.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::aligned_buffer::AlignedBuffer;
use crate::format::{GroupFrame, Sources};

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
    groups: Mutex<VecDeque<Arc<HotGroup>>>,
}

impl Hot {
    /// Keeps groups of up to `bytes_max` bytes together.
    pub(crate) fn new(bytes_max: usize) -> Hot {
        Hot { bytes_max, groups: Mutex::default() }
    }

    /// Adds the newest group; answers a buffer of an older one that nobody reads any more.
    pub(crate) fn push(&self, group: HotGroup) -> Option<AlignedBuffer> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.push_back(Arc::new(group));
        // What a buffer could hold counts: it is what it takes.
        let mut bytes: usize = groups.iter().map(|group| group.bytes.capacity()).sum();
        let mut spare = None;
        while bytes > self.bytes_max {
            let Some(oldest) = groups.pop_front() else { break };
            bytes -= oldest.bytes.capacity();
            spare = Arc::try_unwrap(oldest).ok().map(|group| group.bytes).or(spare);
        }
        spare
    }

    /// The group that a reader at `position` reads next.
    pub(crate) fn at(&self, position: u64) -> Option<Arc<HotGroup>> {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let index = groups.binary_search_by_key(&position, |group| group.from).ok()?;
        groups.get(index).cloned()
    }
}
