//! The segments of a lane, in order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::{RECOVERED_MAX, SEGMENT_START_LONE_MAX, UNKNOWN_SEGMENT_BYTES};

const SUFFIX: &str = ".seg";
const DIGITS: usize = 20;
/// The positions of two consecutive segments of a lane differ by less than this, even if the length of the first one is unknown.
/// So do the positions of a cursor and of the oldest segment that its sink has not read.
const NEAR_BYTES: u64 = 2 * UNKNOWN_SEGMENT_BYTES;

/// One file of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Position of its first byte.
    pub(crate) start: u64,
    /// Position behind its last byte; `None` until the segment is sealed.
    pub(crate) end: Option<u64>,
    /// Records in the lane before it.
    pub(crate) first_record: u64,
    /// Bytes it takes on disk.
    pub(crate) allocated: u64,
    /// A part of the segment could not be read. When every reader has passed it, the segment is kept for a person to look at.
    pub(crate) is_unreadable: bool,
    /// Whether the segment could not be deleted, which was logged.
    pub(crate) is_stuck: bool,
}

/// The segments of a lane, shared by the writer, the readers, and the thread that deletes them.
#[derive(Debug)]
pub(crate) struct Segments {
    directory: PathBuf,
    by_start: Mutex<BTreeMap<u64, Segment>>,
}

impl Segments {
    pub(crate) fn new(directory: PathBuf, segments: impl IntoIterator<Item = Segment>) -> Segments {
        let by_start = segments.into_iter().map(|segment| (segment.start, segment)).collect();
        Segments { directory, by_start: Mutex::new(by_start) }
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<u64, Segment>> {
        self.by_start.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn path(&self, start: u64) -> PathBuf {
        path_of(&self.directory, start)
    }

    pub(crate) fn count(&self) -> usize {
        self.locked().len()
    }

    /// Position and first record of each, the oldest first.
    pub(crate) fn starts(&self) -> Vec<(u64, u64)> {
        self.locked().values().map(|segment| (segment.start, segment.first_record)).collect()
    }

    pub(crate) fn push(&self, segment: Segment) {
        self.locked().insert(segment.start, segment);
    }

    /// Notes that a part of a segment could not be read. Returns whether that was already noted.
    pub(crate) fn mark_unreadable(&self, start: u64) -> bool {
        let mut segments = self.locked();
        segments.get_mut(&start).is_none_or(|segment| std::mem::replace(&mut segment.is_unreadable, true))
    }

    /// Notes that a segment cannot be deleted. Returns whether that was already noted.
    pub(crate) fn mark_stuck(&self, start: u64) -> bool {
        let mut segments = self.locked();
        segments.get_mut(&start).is_none_or(|segment| std::mem::replace(&mut segment.is_stuck, true))
    }

    /// Marks a segment as complete, and notes its size on disk. Returns by how many bytes it became smaller.
    pub(crate) fn seal(&self, start: u64, end: u64) -> u64 {
        let mut segments = self.locked();
        let Some(segment) = segments.get_mut(&start) else { return 0 };
        segment.end = Some(end);
        let spare = segment.allocated.saturating_sub(end - start);
        segment.allocated -= spare;
        spare
    }

    /// The segment that holds `position`, or the first one behind it.
    pub(crate) fn at_or_after(&self, position: u64) -> Option<Segment> {
        let segments = self.locked();
        let holding = segments.range(..=position).next_back().map(|(_, segment)| segment);
        match holding {
            Some(segment) if segment.end.is_none_or(|end| position < end) => Some(segment.clone()),
            _ => segments.range(position.saturating_add(1)..).next().map(|(_, segment)| segment.clone()),
        }
    }

    /// The first segment behind `start`.
    pub(crate) fn after(&self, start: u64) -> Option<Segment> {
        self.locked().range(start.saturating_add(1)..).next().map(|(_, segment)| segment.clone())
    }

    /// Sealed segments that end at or before `position`, but never the newest segment: it alone has the lane's totals.
    pub(crate) fn sealed_until(&self, position: u64) -> Vec<Segment> {
        let segments = self.locked();
        let newest = segments.keys().next_back().copied();
        segments
            .values()
            .filter(|segment| Some(segment.start) != newest && segment.end.is_some_and(|end| end <= position))
            .cloned()
            .collect()
    }

    /// The oldest sealed segment, but never the newest of all. With `is_stuck`, only segments count that could not be deleted
    /// before; otherwise only the others.
    pub(crate) fn oldest_sealed(&self, is_stuck: bool) -> Option<Segment> {
        let segments = self.locked();
        let newest = *segments.keys().next_back()?;
        segments
            .values()
            .take_while(|segment| segment.start != newest && segment.end.is_some())
            .find(|segment| segment.is_stuck == is_stuck)
            .cloned()
    }

    /// Whether there is a sealed segment besides the newest.
    pub(crate) fn has_sealed(&self) -> bool {
        let segments = self.locked();
        segments.len() > 1 && segments.values().next().is_some_and(|oldest| oldest.end.is_some())
    }

    pub(crate) fn forget(&self, start: u64) -> Option<Segment> {
        self.locked().remove(&start)
    }
}

pub(crate) fn path_of(directory: &Path, start: u64) -> PathBuf {
    directory.join(format!("{start:0DIGITS$}{SUFFIX}"))
}

/// The position in a segment's file name.
pub(crate) fn start_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == DIGITS).then(|| digits.parse().ok()).flatten()
}

/// How many of the segments that begin at `starts`, in order, belong to the lane. `cursor` is the position up to which the
/// furthest sink has read the lane. The lane cannot have reached the positions in the names of the others.
pub(crate) fn plausible(starts: &[u64], cursor: u64) -> usize {
    let mut before = None;
    let is_plausible = |start: &&u64| {
        let near = |place: u64| start.abs_diff(place) <= NEAR_BYTES;
        let is_ours = **start <= SEGMENT_START_LONE_MAX || before.is_some_and(near) || near(cursor);
        before = Some(**start);
        is_ours && **start <= RECOVERED_MAX
    };
    starts.iter().take_while(is_plausible).count()
}
