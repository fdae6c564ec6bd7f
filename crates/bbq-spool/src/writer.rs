//! The thread that puts a lane's groups on disk: one write and one sync per group, while the next one fills.
//!
//! Invariant: a group is written only after the one before it is durable; recovery relies on it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tracing::{error, info, warn};

use crate::StorageFile;
use crate::aligned_buffer::AlignedBuffer;
use crate::format::{GroupFrame, SegmentHeader, Sources};
use crate::group::Group;
use crate::hot::HotGroup;
use crate::lane::{Durable, LaneCondition, LaneCore};
use crate::limits::{DISK_RESERVE_BYTES, GROUP_BUFFER_BYTES, SPACE_RETRY_INTERVAL};
use crate::segments::Segment;
use crate::spares::Spare;
use crate::time::unix_ns;

/// What to do about a full disk.
const MAKE_ROOM: &str = "make room on its disk";

/// The segment that is being written.
struct Open {
    file: Box<dyn StorageFile>,
    start: u64,
    /// Bytes written; < capacity.
    used: u64,
    capacity: u64,
}

/// Why the writer stops before its lane is empty.
enum Stop {
    /// The server is stopping and there is no room for what is left.
    NoSpace(String),
    /// A write or a sync failed: what the file holds behind the last durable group is not known.
    Failed(String),
}

/// Records by source.
pub(crate) type Tallies = BTreeMap<u16, u64>;

pub(crate) struct Writer {
    core: Arc<LaneCore>,
    open: Option<Open>,
    /// Where the next byte goes.
    position: u64,
    records: u64,
    sources: Sources,
    segment_bytes: u64,
    /// What a segment of that size takes in one group. A larger group is split, so that a small disk, or a small limit,
    /// never has to have much room in one piece; only a single batch that is larger gets a segment of its own size.
    group_bytes_max: u64,
    flush_interval: Duration,
    /// The sources' names, for readers of hot groups.
    names: Arc<Sources>,
    /// Where the last group stands: as a reader comes to it, and its frame.
    last: (u64, u64),
    /// A buffer for the next group.
    spare: Option<AlignedBuffer>,
}

impl Writer {
    pub(crate) fn new(
        core: Arc<LaneCore>,
        sources: Sources,
        segment_bytes: u64,
        flush_interval: Duration,
    ) -> Writer {
        let Durable { position, records } = core.durable();
        let names = Arc::new(sources.clone());
        // One byte less than there is, see SegmentHeader::allocated.
        let group_bytes_max = segment_bytes.saturating_sub(sources.header_bytes() as u64 + 1);
        Writer {
            core,
            open: None,
            position,
            records,
            sources,
            segment_bytes,
            group_bytes_max,
            flush_interval,
            names,
            last: (position, position),
            spare: None,
        }
    }

    /// Works until the lane is closed and empty. Answers the records that found no place, by source.
    pub(crate) fn run(mut self) -> Tallies {
        let mut group = Group::default();
        while let Some(number) = self.take_group(&mut group) {
            if group.len() as u64 <= self.group_bytes_max {
                if let Err(stop) = self.store(&mut group, number) {
                    return self.stopped(&stop, &[group]);
                }
                group.clear();
            } else {
                let mut parts = VecDeque::from(group.split(self.group_bytes_max as usize));
                group.clear();
                while !parts.is_empty() {
                    // Only the last part ends the group that senders wait for.
                    let done = number - u64::from(parts.len() > 1);
                    if let Err(stop) = self.store(&mut parts[0], done) {
                        return self.stopped(&stop, parts.make_contiguous());
                    }
                    parts.pop_front();
                }
            }
        }
        if let Err(why) = self.seal() {
            // Recovery finds the end by reading; nothing is lost.
            warn!(lane = self.core.index, why, "the last segment could not be cut to its length");
        }
        Tallies::new()
    }

    fn take_group(&self, spare: &mut Group) -> Option<u64> {
        let header_bytes = self.sources.header_bytes() as u64;
        // The next one is probably as large as this one, and begins a segment if it does not fit.
        let behind = |bytes| match &self.open {
            Some(open) if open.capacity - open.used > 2 * bytes => open.used + bytes,
            Some(open) if open.capacity - open.used > bytes => header_bytes,
            _ => header_bytes + bytes,
        };
        self.core.take_group(spare, self.flush_interval, behind)
    }

    /// Makes a group durable and lets readers and senders know: all groups up to `done` are.
    fn store(&mut self, group: &mut Group, done: u64) -> Result<(), Stop> {
        self.put(group)?;
        for (source, records) in group.tallies() {
            self.sources.add(source, records);
        }
        self.keep_hot(group);
        self.core.publish(done, Durable { position: self.position, records: self.records });
        Ok(())
    }

    /// Leaves the group to the readers, who may see it as soon as it is published.
    fn keep_hot(&mut self, group: &mut Group) {
        let spare = self.spare.take().unwrap_or_else(|| AlignedBuffer::with_capacity(GROUP_BUFFER_BYTES));
        let bytes = group.take_bytes(spare);
        let Some(frame) = GroupFrame::decode(&bytes, self.last.1) else { return };
        let hot = HotGroup { from: self.last.0, frame, bytes, sources: Arc::clone(&self.names) };
        self.spare = self.core.hot.push(hot);
    }

    /// Nothing is written any more: what is in memory was never acknowledged, and is counted.
    fn stopped(&self, stop: &Stop, unwritten: &[Group]) -> Tallies {
        let (Stop::NoSpace(why) | Stop::Failed(why)) = stop;
        let collected = self.core.fail(why.clone());
        let mut lost = Tallies::new();
        for (source, records) in unwritten.iter().chain([&collected]).flat_map(Group::tallies) {
            *lost.entry(source).or_default() += records;
        }
        let lane = self.core.index;
        let records: u64 = lost.values().sum();
        match stop {
            Stop::Failed(_) => {
                error!(lane, why, "lane failed: it acknowledges nothing until the server is restarted");
            }
            Stop::NoSpace(_) => error!(lane, why, records, "stopped with unacknowledged messages unwritten"),
        }
        lost
    }

    fn put(&mut self, group: &mut Group) -> Result<(), Stop> {
        let needed = group.len() as u64;
        if self.open.as_ref().is_some_and(|open| open.capacity - open.used <= needed) {
            self.seal().map_err(Stop::Failed)?;
        }
        let from = self.position;
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.next_segment(needed)?,
        };
        self.last = (from, self.position);
        let (frame, bytes) = group.seal(self.position, self.records);
        self.write(&open, bytes)?;
        open.file.sync_data().map_err(|error| {
            Stop::Failed(format!("cannot sync {}: {error}", self.core.segments.path(open.start).display()))
        })?;
        open.used += bytes.len() as u64;
        self.position = frame.end();
        self.records = frame.end_record();
        self.open = Some(open);
        Ok(())
    }

    /// Writes at the end of the segment. Only a full disk is waited for: the same bytes go to the same place again.
    fn write(&self, open: &Open, bytes: &[u8]) -> Result<(), Stop> {
        loop {
            match open.file.write_all_at(open.used, bytes) {
                Ok(()) => {
                    self.core.set_condition(LaneCondition::Writing);
                    return Ok(());
                }
                Err(error) if is_full(&error) => self.wait_for_space(&format!("{error}; {MAKE_ROOM}"))?,
                Err(error) => {
                    let path = self.core.segments.path(open.start);
                    return Err(Stop::Failed(format!("cannot write {}: {error}", path.display())));
                }
            }
        }
    }

    /// Cuts the segment to what was written, so that its length says where the next one begins.
    fn seal(&mut self) -> Result<(), String> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let path = self.core.segments.path(open.start);
        open.file.set_len(open.used).map_err(|error| format!("cannot cut {}: {error}", path.display()))?;
        let spare = self.core.segments.seal(open.start, open.start + open.used);
        self.core.usage.give_back(spare);
        self.core.usage.set_newest(self.core.index, open.used);
        Ok(())
    }

    fn next_segment(&mut self, group_bytes: u64) -> Result<Open, Stop> {
        let mut header = SegmentHeader {
            lane: self.core.index,
            position: self.position,
            first_record: self.records,
            created_ns: unix_ns(),
            allocated: 0,
            sources: self.sources.clone(),
        };
        // One byte more than the group needs, see SegmentHeader::allocated.
        let capacity = self.segment_bytes.max(header.encode().len() as u64 + group_bytes + 1);
        header.allocated = capacity;
        let header = header.encode();
        let file = match self.recycle(capacity, &header) {
            Some(file) => file,
            None => self.create(capacity)?,
        };
        let open = Open { file, start: self.position, used: 0, capacity };
        self.write(&open, &header)?;
        let segment =
            Segment { start: self.position, end: None, first_record: self.records, allocated: capacity };
        self.core.segments.push(segment);
        let open = Open { used: header.len() as u64, ..open };
        self.position += open.used;
        Ok(open)
    }

    /// Makes the segment from a spare, if there is one and it can be done; a spare that is of no use goes.
    fn recycle(&self, capacity: u64, header: &[u8]) -> Option<Box<dyn StorageFile>> {
        let core = &self.core;
        let spare = core.spares.take(core.index)?;
        let more = capacity.saturating_sub(spare.bytes);
        let grows = more == 0 || self.disk_has_room(more).is_ok();
        if spare.bytes <= capacity && grows && core.usage.try_take(more) {
            let path = core.segments.path(self.position);
            match core.storage.recycle(&spare.path, &path, capacity, header) {
                Ok(file) => {
                    core.usage.set_newest(core.index, capacity);
                    return Some(file);
                }
                Err(error) => info!(lane = core.index, %error, "a spare segment cannot be used"),
            }
            core.usage.give_back(more);
        }
        self.remove_spare(&spare);
        None
    }

    fn remove_spare(&self, spare: &Spare) {
        if let Err(error) = self.core.storage.remove(&spare.path) {
            warn!(path = %spare.path.display(), %error, "a spare segment cannot be removed before the next start");
        }
        self.core.usage.give_back(spare.bytes);
    }

    /// Gives back the room of a spare; answers whether there was one. Those that are kept while this writer waits for room
    /// are found by its next look.
    fn free_spare(&self) -> bool {
        self.core.spares.take_any().inspect(|spare| self.remove_spare(spare)).is_some()
    }

    fn create(&self, capacity: u64) -> Result<Box<dyn StorageFile>, Stop> {
        let path = self.core.segments.path(self.position);
        loop {
            if !self.core.usage.try_take(capacity) {
                if self.free_spare() {
                    continue;
                }
                let (used, most) = (self.core.usage.bytes(), self.core.usage.bytes_max());
                self.wait_for_space(&format!(
                    "the spool has {used} bytes and needs {capacity} more, over its limit of {most} (spool.bytes_max); mend or \
                     speed up the sink with the most queued, or raise the limit and restart"
                ))?;
                continue;
            }
            let created =
                self.disk_has_room(capacity).and_then(|()| self.core.storage.create(&path, capacity));
            match created {
                Ok(file) => {
                    if self.core.condition() == LaneCondition::WaitingForSpace {
                        info!(lane = self.core.index, "there is room again");
                    }
                    self.core.set_condition(LaneCondition::Writing);
                    self.core.usage.set_newest(self.core.index, capacity);
                    return Ok(file);
                }
                Err(error) => {
                    self.core.usage.give_back(capacity);
                    if !is_full(&error) && !is_scarce(&error) {
                        return Err(Stop::Failed(format!("cannot create {}: {error}", path.display())));
                    }
                    if is_full(&error) && self.free_spare() {
                        continue;
                    }
                    let remedy = if is_full(&error) {
                        MAKE_ROOM
                    } else {
                        "raise the limit of open files, or free memory"
                    };
                    self.wait_for_space(&format!("cannot create {}: {error}; {remedy}", path.display()))?;
                }
            }
        }
    }

    /// Whether the disk holds so much more and what is left free.
    fn disk_has_room(&self, bytes: u64) -> io::Result<()> {
        let reserve = DISK_RESERVE_BYTES.min(self.segment_bytes);
        // Where this cannot be told, the disk itself says when it is full.
        let available = self.core.storage.available(self.core.segments.directory()).unwrap_or(u64::MAX);
        if available >= bytes.saturating_add(reserve) {
            return Ok(());
        }
        let why =
            format!("{available} bytes are left on the disk, and {reserve} of them are kept for cursors");
        Err(io::Error::new(io::ErrorKind::StorageFull, why))
    }

    fn wait_for_space(&self, why: &str) -> Result<(), Stop> {
        if self.core.condition() != LaneCondition::WaitingForSpace {
            warn!(lane = self.core.index, why, "no room to write; senders are held back until there is");
        }
        // The reason may be another one now.
        self.core.wait_for_space(why);
        if self.core.is_closed() {
            return Err(Stop::NoSpace(why.to_owned()));
        }
        self.core.usage.wait_freed(SPACE_RETRY_INTERVAL);
        Ok(())
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Out of file descriptors or memory: as passing as a full disk.
fn is_scarce(error: &io::Error) -> bool {
    let scarce = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE, rustix::io::Errno::NOMEM];
    error.raw_os_error().is_some_and(|code| scarce.iter().any(|errno| errno.raw_os_error() == code))
}
