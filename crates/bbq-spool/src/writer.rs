//! Writes the groups of a lane to disk: one write and one sync per group, while the next one fills. A thread runs the
//! writer, or a test calls each step.
//!
//! Invariant: a group is written only after the one before it is durable; recovery relies on it.
//! Invariant: groups are whole blocks, so a write never touches a sector of a durable group.
//! Invariant: nothing is written where a sync has failed. If the disk was full, the group goes into another segment.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bbq_storage::ShownBytes;
use tracing::{error, info, warn};

use crate::filling_group::FillingGroup;
use crate::format::{GroupFrame, SegmentHeader, Sources};
use crate::hot::HotGroup;
use crate::lane::{Durable, LaneCondition, LaneCore, Taken, WrittenSegment};
use crate::limits::{CLOSED_SPACE_TRIES_MAX, DISK_RESERVE_BYTES, SPACE_RETRY_INTERVAL};
use crate::segments::Segment;
use crate::spares::Spare;
use crate::{NoRoom, StorageFile};

/// What to do about a full disk.
const MAKE_ROOM: &str = "make room on its disk";

/// Old messages are deleted as soon as this many quarters of the last segment that the limit allows are filled, so that no append
/// has to wait for the deletion.
const FULL_QUARTERS: u64 = 3;

/// The segment that is being written.
struct Open {
    file: Arc<dyn StorageFile>,
    start: u64,
    /// The offset of the next group; header_bytes <= used < capacity.
    used: u64,
    capacity: u64,
    /// This segment is listed only when its first group is durable. Until then the segment before counts as the newest, which is
    /// kept: a restart would remove this segment, and only the segment before has the lane's totals.
    new: Option<Segment>,
    /// A sync has failed because the disk is full. What the disk has behind `used` is unknown, and writing the same cached pages again
    /// might not change it (`write_again` of bbq-storage says why). So this part is cut off, and another segment begins.
    is_spoiled: bool,
}

/// Why a group is not on disk.
enum PutError {
    /// There is no room at present.
    NoRoom(NoRoom),
    /// A write or a sync failed: the contents behind the last durable group are unknown.
    Failed(String),
}

/// Why the writer stops before its lane is empty.
enum Stop {
    /// The server is stopping and there is no room for what is left.
    NoSpace(String),
    /// The contents behind the last durable group are unknown, or the writer itself failed.
    Failed(String),
}

/// Records by source.
pub(crate) type Tallies = BTreeMap<u16, u64>;

/// The result of one step of a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A group became durable.
    Wrote,
    /// There is nothing to write. Call again after an append, and at the latest after this time.
    Waits(Option<Duration>),
    /// There is no room. Call again when there may be some.
    WaitsForSpace,
    /// The lane was closed, or failed. These records, by source, were not written.
    Ended(BTreeMap<u16, u64>),
}

pub(crate) struct Writer {
    core: Arc<LaneCore>,
    open: Option<Open>,
    /// The position of the next segment; not valid while one is open.
    position: u64,
    records: u64,
    sources: Sources,
    segment_bytes: u64,
    flush_interval: Duration,
    /// The sources' names, for readers of hot groups.
    names: Arc<Sources>,
    /// The group that was taken and is not durable yet, with its number.
    group: FillingGroup,
    number: Option<u64>,
    /// See [`LaneCore::try_take_group`].
    gathered: usize,
    /// How often the writer has tried to find room since the last written group, after the lane was closed.
    closed_tries: u32,
    /// The writer has ended, with these records unwritten.
    ended: Option<Tallies>,
}

impl Writer {
    pub(crate) fn new(
        core: Arc<LaneCore>,
        sources: Sources,
        segment_bytes: u64,
        flush_interval: Duration,
    ) -> Writer {
        let Durable { position, records, .. } = core.durable();
        let names = Arc::new(sources.clone());
        let group = FillingGroup::with_buffer(core.hot.buffer(0));
        Writer {
            core,
            open: None,
            position,
            records,
            sources,
            segment_bytes,
            flush_interval,
            names,
            group,
            number: None,
            gathered: 0,
            closed_tries: 0,
            ended: None,
        }
    }

    /// Runs until the lane is closed and empty. Returns the records that were not written, by source.
    pub(crate) fn run(mut self) -> Tallies {
        // After a panic the lane must not acknowledge any more.
        let worked = catch_unwind(AssertUnwindSafe(|| self.work()));
        match worked {
            Ok(Ok(())) => Tallies::new(),
            Ok(Err(stop)) => self.stopped(&stop),
            Err(panic) => {
                self.stopped(&Stop::Failed(format!("its writer panicked: {}", message_of(&*panic))))
            }
        }
    }

    fn work(&mut self) -> Result<(), Stop> {
        loop {
            if self.number.is_none() {
                let taken = self.core.take_group(&mut self.group, self.flush_interval);
                self.number = taken.map_err(Stop::Failed)?;
            }
            let Some(number) = self.number else { break };
            match self.store(number) {
                Ok(()) => {}
                Err(PutError::NoRoom(why)) => {
                    self.wait_for_space(why)?;
                    self.core.shared.usage.wait_freed(SPACE_RETRY_INTERVAL);
                }
                Err(PutError::Failed(why)) => return Err(Stop::Failed(why)),
            }
        }
        self.seal_last();
        Ok(())
    }

    /// Does one step, without waiting.
    pub(crate) fn step(&mut self) -> Step {
        if let Some(unwritten) = &self.ended {
            return Step::Ended(unwritten.clone());
        }
        let number = match self.number {
            Some(number) => number,
            None => {
                match self.core.try_take_group(&mut self.group, self.flush_interval, &mut self.gathered) {
                    Taken::Group { number, .. } => *self.number.insert(number),
                    Taken::NotYet(rest) => return Step::Waits(rest),
                    Taken::Revoked(why) => {
                        let unwritten = self.stopped(&Stop::Failed(why));
                        return self.end(unwritten);
                    }
                    Taken::Closed => {
                        self.seal_last();
                        return self.end(Tallies::new());
                    }
                }
            }
        };
        let stop = match self.store(number) {
            Ok(()) => return Step::Wrote,
            Err(PutError::NoRoom(why)) => match self.wait_for_space(why) {
                Ok(()) => return Step::WaitsForSpace,
                Err(stop) => stop,
            },
            Err(PutError::Failed(why)) => Stop::Failed(why),
        };
        let unwritten = self.stopped(&stop);
        self.end(unwritten)
    }

    fn end(&mut self, unwritten: Tallies) -> Step {
        self.ended = Some(unwritten.clone());
        Step::Ended(unwritten)
    }

    fn seal_last(&mut self) {
        if let Err(PutError::NoRoom(NoRoom { why, .. }) | PutError::Failed(why)) = self.seal() {
            // Recovery finds the end by reading, so nothing is lost.
            warn!(lane = self.core.index, why, "the last segment could not be cut to its length");
        }
    }

    fn check_revoked(&self) -> Result<(), PutError> {
        self.core.revoked().map_or(Ok(()), |why| Err(PutError::Failed(why)))
    }

    /// Makes the group durable, and publishes that to readers and senders.
    fn store(&mut self, number: u64) -> Result<(), PutError> {
        self.check_revoked()?;
        let (from, frame) = self.put()?;
        // What was put may be in a file that no name leads to.
        self.check_revoked()?;
        self.core.set_condition(LaneCondition::Writing);
        for (source, records) in self.group.tallies() {
            self.sources.add(source, records);
        }
        let drops_oldest = self.is_nearly_full() && self.core.drops_oldest_for(&self.group);
        self.core.want_oldest_dropped(drops_oldest);
        self.cache_group(from, frame);
        self.records = frame.end_record();
        self.core.publish(Durable { group: number, position: frame.end(), records: self.records });
        if let Some(since) = self.group.awaited_since() {
            self.core.latencies.durable.add(self.core.shared.time.now().saturating_sub(since));
        }
        self.group.clear();
        self.number = None;
        self.closed_tries = 0;
        Ok(())
    }

    /// Gives the group to the readers. They may read the group as soon as it is published. `from` is the position of a reader
    /// that has read everything before the group.
    fn cache_group(&mut self, from: u64, frame: GroupFrame) {
        // The next group will be about as large.
        let next = self.core.hot.buffer(self.group.block_bytes());
        let bytes = self.group.take_bytes(next);
        let hot = HotGroup { from, frame, bytes, sources: Arc::clone(&self.names) };
        self.core.hot.push(hot);
    }

    /// Whether the next segment will need more room than the limit allows.
    fn is_nearly_full(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.used * 4 >= open.capacity * FULL_QUARTERS)
            && !self.core.shared.spares.has_some(self.core.index)
            && !self.core.shared.usage.has_room(self.segment_bytes)
    }

    /// Ends writing, and counts the records in memory, which were never acknowledged.
    fn stopped(&self, stop: &Stop) -> Tallies {
        let (Stop::NoSpace(why) | Stop::Failed(why)) = stop;
        let collected = self.core.fail(why.clone());
        let in_hand = self.number.map(|_| &self.group);
        let mut lost = Tallies::new();
        for (source, records) in in_hand.into_iter().chain([&collected]).flat_map(FillingGroup::tallies) {
            *lost.entry(source).or_default() += records;
        }
        let lane = self.core.index;
        let records: u64 = lost.values().sum();
        match stop {
            Stop::Failed(_) => {
                error!(
                    lane,
                    why, records, "lane failed: it acknowledges nothing until the server is restarted"
                );
            }
            Stop::NoSpace(_) => {
                error!(
                    lane,
                    why,
                    records,
                    "stopped before there was room: these messages are not on disk, and none was acknowledged as durable"
                );
            }
        }
        lost
    }

    /// Writes and syncs the group. Returns the position at which a reader finds it, and its frame. Without room, the next call
    /// starts from the beginning.
    fn put(&mut self) -> Result<(u64, GroupFrame), PutError> {
        let needed = self.group.block_bytes() as u64;
        if self.open.as_ref().is_some_and(|open| open.is_spoiled && open.new.is_some()) {
            self.remove_empty()?;
        }
        if self.open.as_ref().is_some_and(|open| open.is_spoiled || open.capacity - open.used <= needed) {
            self.seal()?;
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.open_segment(needed)?,
        };
        let written = self.write(&mut open);
        self.open = Some(open);
        written
    }

    fn write(&mut self, open: &mut Open) -> Result<(u64, GroupFrame), PutError> {
        let failed = |what: &str, error: &io::Error| {
            let path = self.core.segments.path(open.start);
            put_error(format!("cannot {what} {}: {error}", path.display()), error)
        };
        let (frame, bytes) = self.group.seal(open.start + open.used, self.records);
        let needed = ShownBytes(bytes.len() as u64);
        let written = open.file.write_all_at(open.used, bytes);
        written.map_err(|error| failed(&format!("write {needed} to"), &error))?;
        let began = self.core.shared.time.now();
        if let Err(error) = open.file.sync_data() {
            let failed = failed("sync", &error);
            open.is_spoiled = true;
            return Err(failed);
        }
        self.core.latencies.sync.add(self.core.shared.time.now().saturating_sub(began));
        let from = if open.new.is_some() { open.start } else { frame.position };
        if let Some(segment) = open.new.take() {
            self.core.segments.push(segment);
            let written = WrittenSegment { file: Arc::clone(&open.file), start: open.start };
            self.core.set_written(Some(written));
        }
        open.used += bytes.len() as u64;
        Ok((from, frame))
    }

    /// Truncates the segment to what was written, so that its length tells where the next one begins. On a full disk, the next call
    /// tries again.
    fn seal(&mut self) -> Result<(), PutError> {
        let Some(open) = &self.open else { return Ok(()) };
        self.position = open.start + open.used;
        let cut = open.file.set_len(open.used).and_then(|()| open.file.sync_all());
        cut.map_err(|error| {
            put_error(
                format!("cannot cut {}: {error}", self.core.segments.path(open.start).display()),
                &error,
            )
        })?;
        self.core.set_written(None);
        let spare = self.core.segments.seal(open.start, self.position);
        self.core.shared.usage.give_back(spare);
        self.core.shared.usage.set_newest(self.core.index, open.used);
        self.open = None;
        Ok(())
    }

    /// Removes a segment in which nothing became durable, so that the next one gets its name.
    fn remove_empty(&mut self) -> Result<(), PutError> {
        let Some(open) = &self.open else { return Ok(()) };
        let path = self.core.segments.path(open.start);
        let removed = self.core.shared.storage.remove(&path);
        removed.map_err(|error| put_error(format!("cannot remove {}: {error}", path.display()), &error))?;
        self.position = open.start;
        self.core.shared.usage.give_back(open.capacity);
        self.open = None;
        Ok(())
    }

    fn open_segment(&mut self, group_bytes: u64) -> Result<Open, PutError> {
        let mut header = SegmentHeader {
            lane: self.core.index,
            position: self.position,
            first_record: self.records,
            created_ns: self.core.shared.time.unix_ns(),
            allocated: 0,
            sources: self.sources.clone(),
        };
        // One byte more than the group needs, see SegmentHeader::allocated.
        let capacity = self.segment_bytes.max(header.encode().len() as u64 + group_bytes + 1);
        header.allocated = capacity;
        let header = header.encode();
        let used = header.len() as u64;
        let file = match self.recycle(capacity, &header) {
            Some(file) => file,
            None => self.create(capacity, &header)?,
        };
        let segment = Segment {
            start: self.position,
            end: None,
            first_record: self.records,
            allocated: capacity,
            is_unreadable: false,
            is_stuck: false,
        };
        Ok(Open {
            file: file.into(),
            start: self.position,
            used,
            capacity,
            new: Some(segment),
            is_spoiled: false,
        })
    }

    /// Makes the segment from a spare, if there is one. A spare that cannot be used is removed.
    fn recycle(&self, capacity: u64, header: &[u8]) -> Option<Box<dyn StorageFile>> {
        let core = &self.core;
        let shared = &core.shared;
        let spare = shared.spares.take(core.index)?;
        let more = capacity.saturating_sub(spare.bytes);
        let grows = more == 0 || self.disk_has_room(more).is_ok();
        if spare.bytes <= capacity && grows && shared.usage.try_take(more) {
            let path = core.segments.path(self.position);
            match shared.storage.recycle(&spare.path, &path, capacity, header) {
                Ok(file) => {
                    shared.usage.set_newest(core.index, capacity);
                    return Some(file);
                }
                Err(error) => {
                    info!(lane = core.index, %error, "a spare segment cannot be used");
                    // The file may have its new name already. The next try needs that name.
                    let _has_the_old_one = shared.storage.remove(&path);
                }
            }
            shared.usage.give_back(more);
        }
        self.remove_spare(&spare);
        None
    }

    fn remove_spare(&self, spare: &Spare) {
        if let Err(error) = self.core.shared.storage.remove(&spare.path) {
            warn!(path = %spare.path.display(), %error, "a spare segment cannot be removed before the next start");
        }
        self.core.shared.usage.give_back(spare.bytes);
    }

    /// Frees the room of a spare; returns whether there was one. The next try finds spares that are added while this writer waits
    /// for room.
    fn free_spare(&self) -> bool {
        self.core.shared.spares.take_any().inspect(|spare| self.remove_spare(spare)).is_some()
    }

    fn create(&self, capacity: u64, header: &[u8]) -> Result<Box<dyn StorageFile>, PutError> {
        let path = self.core.segments.path(self.position);
        let usage = &self.core.shared.usage;
        while !usage.try_take(capacity) {
            if !self.free_spare() {
                let [used, capacity, most] = [usage.bytes(), capacity, usage.bytes_max()].map(ShownBytes);
                return Err(PutError::NoRoom(NoRoom::in_spool(format!(
                    "the spool has {used} and needs {capacity} more, over its limit of {most} (spool.bytes_max); sinks make room when they deliver; or raise the limit and restart"
                ))));
            }
        }
        loop {
            let created = self
                .disk_has_room(capacity)
                .and_then(|()| self.core.shared.storage.create(&path, capacity, header));
            let error = match created {
                Ok(file) => {
                    if self.core.condition() == LaneCondition::WaitingForSpace {
                        info!(lane = self.core.index, "there is room again");
                    }
                    usage.set_newest(self.core.index, capacity);
                    return Ok(file);
                }
                Err(error) if is_full(&error) && self.free_spare() => continue,
                Err(error) => error,
            };
            usage.give_back(capacity);
            let why = format!("cannot create {}: {error}", path.display());
            return Err(if is_full(&error) {
                PutError::NoRoom(NoRoom::on_disk(format!("{why}; {MAKE_ROOM}")))
            } else if is_scarce(&error) {
                PutError::NoRoom(NoRoom::elsewhere(format!(
                    "{why}; raise the limit of open files, or free memory"
                )))
            } else {
                PutError::Failed(why)
            });
        }
    }

    /// Whether the disk has room for this many bytes beside what has to stay free.
    fn disk_has_room(&self, bytes: u64) -> io::Result<()> {
        let reserve = DISK_RESERVE_BYTES.min(self.segment_bytes);
        // If the available space is unknown, a write fails when the disk is full.
        let available =
            self.core.shared.storage.available(self.core.segments.directory()).unwrap_or(u64::MAX);
        if available >= bytes.saturating_add(reserve) {
            return Ok(());
        }
        let [available, needed, bytes, reserve] =
            [available, bytes.saturating_add(reserve), bytes, reserve].map(ShownBytes);
        let why = format!(
            "{available} are left on the disk, and {needed} are needed: {bytes} for a segment, and {reserve} that are kept free for cursors"
        );
        Err(io::Error::new(io::ErrorKind::StorageFull, why))
    }

    /// Publishes that there is no room, and requests the deletion of old messages. Returns an error when the lane is closed and
    /// no room is made.
    fn wait_for_space(&mut self, no_room: NoRoom) -> Result<(), Stop> {
        let why = no_room.why.clone();
        if self.core.condition() != LaneCondition::WaitingForSpace {
            warn!(
                lane = self.core.index,
                why, "no room to write; until there is room, senders wait or messages are dropped (on_full)"
            );
        }
        // The reason may have changed.
        self.core.wait_for_space(no_room);
        let drops_oldest = self.core.drops_oldest_for(&self.group);
        if self.core.is_closed() {
            // Old messages may still be deleted for the group in hand, which is newer. Otherwise no room is made.
            if !drops_oldest || self.closed_tries >= CLOSED_SPACE_TRIES_MAX {
                return Err(Stop::NoSpace(why));
            }
            self.closed_tries += 1;
        }
        if drops_oldest {
            self.core.want_oldest_dropped(true);
        }
        Ok(())
    }
}

/// The message of a panic.
fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// The failure of a write, a sync or a cut. A full disk is waited for.
fn put_error(why: String, error: &io::Error) -> PutError {
    if is_full(error) {
        PutError::NoRoom(NoRoom::on_disk(format!("{why}; {MAKE_ROOM}")))
    } else {
        PutError::Failed(why)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether file descriptors or memory ran out. This is as temporary as a full disk.
fn is_scarce(error: &io::Error) -> bool {
    let scarce = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE, rustix::io::Errno::NOMEM];
    error.raw_os_error().is_some_and(|code| scarce.iter().any(|errno| errno.raw_os_error() == code))
}
