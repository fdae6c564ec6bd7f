//! The newest durable groups of a lane, in memory. A reader that keeps up takes them from here, without a system call, a copy, or
//! a check of the checksums.
//!
//! Invariant: this is only a cache. All other groups are read from the segments.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::format::{GroupFrame, Sources};
use crate::limits::{GROUP_BYTES_TARGET, HOT_GROUPS_MAX};
use bbq_storage::direct::AlignedBuffer;

/// A group as it was written.
pub(crate) struct HotGroup {
    /// The position of a reader that has read everything before the group: that of the group's frame. For the first group of a
    /// segment, that of the segment's header.
    pub(crate) from: u64,
    pub(crate) frame: GroupFrame,
    /// Frame and entries.
    pub(crate) bytes: AlignedBuffer,
    /// The names of the sources.
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
    /// Buffers of groups that are no longer read. New memory is mapped page by page, which costs more than the copy into it.
    spares: Vec<AlignedBuffer>,
}

/// Spare buffers may use the memory divided by this number. The size of groups varies with the speed of the disk, and a large
/// group replaces many small ones. With a quarter of the memory there were twice as many page faults.
const SPARES_SHARE: usize = 2;

/// A large buffer is not kept if it is this many times larger than its group. Otherwise the buffer of one very large batch would
/// replace all other groups each time it is reused.
const OVERSIZE: usize = 8;

impl Hot {
    /// Keeps groups and spare buffers of up to `bytes_max` bytes together, or one spare buffer if that is larger. Groups
    /// mostly have up to `group_bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize, group_bytes_max: usize) -> Hot {
        Hot { bytes_max, group_bytes_max, kept: Mutex::default() }
    }

    fn locked(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer for a group that will probably have `bytes` bytes. Every group fits without a reallocation, except a group with a
    /// very large batch. Pages that are not written to take no memory.
    pub(crate) fn buffer(&self, bytes: usize) -> AlignedBuffer {
        let spares = &mut self.locked().spares;
        // The smallest spare that is large enough, or the largest one.
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
        let mut surplus = Vec::new();
        while bytes > self.bytes_max - spare_bytes_max || groups.len() > HOT_GROUPS_MAX {
            let Some(oldest) = groups.pop_front() else { break };
            bytes -= oldest.bytes.used();
            // While a reader has it, the reader brings the buffer back.
            let Some(HotGroup { bytes: buffer, .. }) = Arc::into_inner(oldest) else { continue };
            if self.is_oversize(&buffer) { surplus.push(buffer) } else { spares.push(buffer) }
        }
        surplus.extend(self.surplus(spares));
        drop(kept);
        drop(surplus);
    }

    /// Takes a group that a reader is done with: the last one of those who had it brings back its buffer.
    pub(crate) fn take_back(&self, group: Arc<HotGroup>) {
        let buffer = Arc::into_inner(group).map(|group| group.bytes);
        let Some(buffer) = buffer.filter(|buffer| !self.is_oversize(buffer)) else { return };
        let mut kept = self.locked();
        kept.spares.push(buffer);
        let surplus = self.surplus(&mut kept.spares);
        drop(kept);
        drop(surplus);
    }

    /// Takes out the spares that are too much, to be freed without the lock. The newest ones stay, as they have the size of present
    /// groups.
    fn surplus(&self, spares: &mut Vec<AlignedBuffer>) -> Vec<AlignedBuffer> {
        let mut bytes: usize = spares.iter().map(AlignedBuffer::used).sum();
        let mut surplus = Vec::new();
        while spares.len() > 1 && bytes > self.bytes_max / SPARES_SHARE {
            let oldest = spares.remove(0);
            bytes -= oldest.used();
            surplus.push(oldest);
        }
        surplus
    }

    /// Whether a buffer is too large to be kept. A buffer that leaves room for other spares is kept, as groups vary in size and
    /// new memory is expensive.
    fn is_oversize(&self, buffer: &AlignedBuffer) -> bool {
        let is_large = buffer.used() > (self.bytes_max / SPARES_SHARE / 2).max(GROUP_BYTES_TARGET);
        is_large && buffer.used() / OVERSIZE > buffer.len()
    }

    /// The group that a reader at `position` reads next.
    pub(crate) fn at(&self, position: u64) -> Option<Arc<HotGroup>> {
        let groups = &self.locked().groups;
        let index = groups.binary_search_by_key(&position, |group| group.from).ok()?;
        groups.get(index).cloned()
    }

    /// The oldest group at `position` or behind it.
    pub(crate) fn from(&self, position: u64) -> Option<Arc<HotGroup>> {
        let groups = &self.locked().groups;
        groups.get(groups.partition_point(|group| group.from < position)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: usize = 100_000;

    /// Pushes groups of these sizes, with two buffers in use, as in a lane. Returns how many of the last eight groups were in
    /// memory after each push.
    fn kept_behind(hot: &Hot, sizes: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut filling = VecDeque::from([hot.buffer(0), hot.buffer(0)]);
        let sources = Arc::new(Sources::default());
        let mut kept = Vec::new();
        for (from, size) in (0_u64..).zip(sizes) {
            let mut bytes = filling.pop_front().unwrap();
            bytes.begin(0);
            bytes.resize(size);
            filling.push_back(hot.buffer(size));
            let frame = GroupFrame {
                bytes: 0,
                entries: 0,
                position: from,
                first_record: 0,
                records: 0,
                padding: 0,
                tag: 0,
            };
            hot.push(HotGroup { from, frame, bytes, sources: Arc::clone(&sources) });
            kept.push((from.saturating_sub(7)..=from).filter(|from| hot.at(*from).is_some()).count());
        }
        kept
    }

    #[test]
    fn a_large_group_takes_the_room_of_small_ones_for_a_while_only() {
        for large in [3 << 20, 8 << 20, 16 << 20] {
            let hot = Hot::new(16 << 20, 8 << 20);
            let sizes = [[SMALL; 20].as_slice(), &[large], &[SMALL; 40]].concat();
            let kept = kept_behind(&hot, sizes);
            assert_eq!(kept[41..], [8; 20], "{large}: {kept:?}");
        }
    }

    #[test]
    fn a_buffer_comes_back_when_its_last_reader_is_done() {
        let hot = Hot::new(16 << 20, 8 << 20);
        kept_behind(&hot, [SMALL]);
        let readers = [hot.at(0).unwrap(), hot.at(0).unwrap()];
        let place = readers[0].bytes.as_ptr().addr();
        kept_behind(&hot, [SMALL; HOT_GROUPS_MAX]);
        let is_back = || hot.locked().spares.iter().any(|spare| spare.as_ptr().addr() == place);
        for (reader, is_last) in readers.into_iter().zip([false, true]) {
            assert!(!is_back());
            hot.take_back(reader);
            assert_eq!(is_back(), is_last);
        }
    }

    #[test]
    fn buffers_of_groups_that_are_always_large_are_used_again() {
        for bytes_max in [0, 16 << 20] {
            let hot = Hot::new(bytes_max, 8 << 20);
            kept_behind(&hot, [6 << 20; 10]);
            assert!(hot.locked().spares.iter().any(|spare| spare.used() >= 6 << 20));
        }
    }
}
