//! `file:PATH` and `stdout:` write messages as text: to a file, a pipe, a device or standard output.
//!
//! Messages are formatted into a buffer group by group. The buffer is written when it is large enough or when there are no more
//! groups. A file may become full in the middle of a group, between two messages. The rest of the group is then kept for the new
//! file.
//!
//! Invariant: no message is written to an output whose state is not in the cursor.

#![forbid(unsafe_code)]

mod aside;
mod file;
mod output;
mod rotation;
mod simulated;
mod stream;
mod surplus;
mod target;
#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind};

use bbq_format::Formatter;
use bbq_sink::{Commit, Now, Problem, Room, Settled, Sink};
use bbq_spool::{Entry, Group, GroupCursor, LanePlace, Scratch};
use bbq_storage::direct::AlignedBuffer;
use bbq_wire::limits::BATCH_BODY_BYTES_TARGET;

use output::Output;
pub use rotation::Rotation;
pub use simulated::simulated_file;
pub use target::{FILE, STDOUT};

/// Messages that are formatted before the size of the buffer is checked: the shortest make 4 MiB of JSON.
const RECORDS_AT_ONCE_MAX: u32 = 16 * 1024;
/// Their bytes, unless one is larger: a batch of a few KiB may unpack to 16 MiB, and JSON may make six bytes of each byte.
const RECORDS_BYTES_AT_ONCE_MAX: u32 = 1024 * 1024;
/// The buffer is written when it has this size: then the cost of a request to the disk does not matter. With a quarter of this
/// size, the requests were a third of all that a sink spent.
const OUTPUT_BYTES_TARGET: usize = 1024 * 1024;
/// Room for that and, in most cases, for the batch that exceeds it: a buffer that grows may lose its alignment to blocks of the
/// file.
const OUTPUT_BUFFER_BYTES: usize = 2 * OUTPUT_BYTES_TARGET + BATCH_BODY_BYTES_TARGET;
/// A buffer that grew beyond this, for messages that are large or grow much in JSON, is given back once it is written.
const OUTPUT_BUFFER_BYTES_MAX: usize = 4 * OUTPUT_BUFFER_BYTES;

/// Why taking messages stops for now.
enum Pause {
    /// A commit must begin a new file first.
    Commit,
    Problem(Problem),
}

/// A group that is being taken.
struct Current {
    group: Group,
    cursor: GroupCursor,
    /// How many of its records are in the buffer or in the output.
    taken: u64,
    received_ns: u64,
}

/// Formatted messages of a batch that goes into more than one file.
#[derive(Default)]
struct Remainder {
    text: Vec<u8>,
    /// Where each message ends.
    ends: Vec<usize>,
    /// The first message that is not taken, and where it begins.
    next: usize,
    start: usize,
}

/// What a commit does next. The process may be killed after any step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The output is made durable.
    Sync,
    /// Somebody else may have moved the file away.
    Follow,
    /// The file may be from an earlier day.
    Age,
    /// The name is chosen under which the file will be set aside.
    Name,
    /// The file is set aside, and a new one begun.
    SetAside,
    /// Nothing is left to do: the next buffer begins.
    Finish,
}

struct TextSink {
    output: Box<dyn Output>,
    formatter: Formatter,
    buffer: AlignedBuffer,
    /// Bytes of the buffer that are in the output.
    written: usize,
    /// Bytes that the output has room for, from the beginning of the buffer on.
    room: u64,
    current: Option<Current>,
    remainder: Remainder,
    /// Groups that are in the buffer to their end.
    buffered: Vec<Settled>,
    /// Groups that are in the output to their end.
    settled: Vec<Settled>,
    uncommitted_bytes: u64,
    stage: Stage,
    /// The next commit begins a new file.
    is_full: bool,
    /// The path leads to another file: a commit must come before the buffer is written.
    has_moved: bool,
    /// The lane of the group that was being taken at the last write, and how many of its records were in the output then.
    begun: Option<(u32, u64)>,
    /// Whether the first commit is done. It does not look for a moved or an old file.
    has_begun: bool,
    /// Whether the age of an earlier run's output was checked.
    has_looked: bool,
    /// Batches are unpacked here.
    scratch: Scratch,
}

impl TextSink {
    fn new(output: Box<dyn Output>, formatter: Formatter) -> TextSink {
        TextSink {
            buffer: AlignedBuffer::with_capacity(OUTPUT_BUFFER_BYTES),
            written: 0,
            room: output.room(),
            output,
            formatter,
            current: None,
            remainder: Remainder::default(),
            buffered: Vec::new(),
            settled: Vec::new(),
            uncommitted_bytes: 0,
            stage: Stage::Sync,
            is_full: false,
            has_moved: false,
            begun: None,
            has_begun: false,
            has_looked: false,
            scratch: Scratch::default(),
        }
    }

    /// Takes the current group to its end, or as far as possible.
    fn take(&mut self, now: Now) -> Result<(), Pause> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        let taken = self.take_group(&mut current, now);
        if taken.is_err() {
            self.current = Some(current);
            return taken;
        }
        let Current { group, cursor, received_ns, .. } = current;
        let (until, delivered) = (group.until(), cursor.records());
        self.buffered.push(Settled {
            until,
            delivered,
            rejected: Vec::new(),
            letters: Vec::new(),
            received_ns,
        });
        Ok(())
    }

    fn take_group(&mut self, current: &mut Current, now: Now) -> Result<(), Pause> {
        let Current { group, cursor, taken, received_ns } = current;
        if !std::mem::replace(&mut self.has_looked, true) && self.output.is_old(now.wall) {
            // These messages do not belong in yesterday's file.
            self.is_full = true;
            return Err(Pause::Commit);
        }
        self.take_remainder(group.until().lane, taken, now)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut at = cursor.records();
        let done = group.try_for_each(cursor, &mut scratch, |entry| {
            *received_ns = entry.envelope.received_ns;
            self.take_batch(entry, &mut at, taken, now)
        });
        self.scratch = scratch;
        done
    }

    /// Takes the messages of a batch, some at a time: an empty message is one byte in the batch and some 200 in JSON, and a
    /// compressed batch may unpack to much more.
    fn take_batch(
        &mut self,
        entry: &Entry<'_>,
        at: &mut u64,
        taken: &mut u64,
        now: Now,
    ) -> Result<(), Pause> {
        let header = &entry.batch.header;
        if header.records <= RECORDS_AT_ONCE_MAX && header.records_bytes <= RECORDS_BYTES_AT_ONCE_MAX {
            return self.take_part(entry, at, taken, now);
        }
        let mut parts = entry.batch.parts(RECORDS_AT_ONCE_MAX, RECORDS_BYTES_AT_ONCE_MAX as usize);
        parts.try_for_each(|batch| self.take_part(&entry.with_batch(batch), at, taken, now))
    }

    /// Takes the messages of an entry, except those already `taken`. The first message is number `at` of the group.
    fn take_part(&mut self, entry: &Entry<'_>, at: &mut u64, taken: &mut u64, now: Now) -> Result<(), Pause> {
        let records = u64::from(entry.batch.header.records);
        let skip = taken.saturating_sub(*at).min(records);
        *at += records;
        if skip == records {
            return Ok(());
        }
        if self.buffer.is_empty() {
            self.buffer.begin(self.output.position());
        }
        if skip == 0 {
            let out = self.buffer.end();
            let before = out.len();
            self.formatter.append(entry, out);
            if self.buffer.len() as u64 <= self.room {
                *taken += records;
                return self.write_if_much((entry.lane, *taken), now);
            }
            self.buffer.end().truncate(before);
        }
        self.remainder = Remainder::default();
        self.formatter.append_with_ends(entry, &mut self.remainder.text, &mut self.remainder.ends);
        self.remainder.skip(skip);
        self.take_remainder(entry.lane, taken, now)
    }

    /// Takes the rest of a batch that is partly in the output already, or that goes into more than one file.
    fn take_remainder(&mut self, lane: u32, taken: &mut u64, now: Now) -> Result<(), Pause> {
        while let Some(following) =
            self.remainder.ends.get(self.remainder.next..).filter(|ends| !ends.is_empty())
        {
            if self.buffer.is_empty() {
                self.buffer.begin(self.output.position());
            }
            let start = self.remainder.start;
            let room = self.room.saturating_sub(self.buffer.len() as u64);
            let mut fits = following.partition_point(|end| (end - start) as u64 <= room);
            if fits == 0 && self.buffer.is_empty() && self.output.position() == 0 {
                // The message is larger than a whole file, and gets a file of its own.
                fits = 1;
            }
            if fits == 0 {
                self.is_full = true;
                return Err(Pause::Commit);
            }
            let end = following[fits - 1];
            self.buffer.end().extend_from_slice(&self.remainder.text[start..end]);
            (self.remainder.start, self.remainder.next) = (end, self.remainder.next + fits);
            *taken += fits as u64;
        }
        self.remainder = Remainder::default();
        self.write_if_much((lane, *taken), now)
    }

    /// Writes the buffer when it is large enough; `begun` is the group that is being taken, and how much of it was taken.
    fn write_if_much(&mut self, begun: (u32, u64), now: Now) -> Result<(), Pause> {
        if self.buffer.len() < OUTPUT_BYTES_TARGET {
            return Ok(());
        }
        self.write(Some(begun), now).map_err(Pause::Problem)?;
        if self.has_moved { Err(Pause::Commit) } else { Ok(()) }
    }

    /// Writes the buffer. Its groups are settled only then, so that the count of delivered records is never ahead of the output. If the
    /// path leads to another file, the buffer is kept, and `has_moved` says so.
    fn write(&mut self, begun: Option<(u32, u64)>, now: Now) -> Result<(), Problem> {
        if !self.buffer.is_empty() {
            // A piece of the buffer may be in the file already; then the rest belongs there, too.
            self.has_moved = self.written == 0 && self.output.has_moved();
            if self.has_moved {
                return Ok(());
            }
            self.output.write(&self.buffer, &mut self.written, now.wall).map_err(|error| {
                match error.kind() {
                    _ if self.output.can_roll_back() => Problem::Failed(error),
                    ErrorKind::WouldBlock => {
                        Problem::Blocked { is_clean: self.written == 0 && self.uncommitted_bytes == 0 }
                    }
                    _ => Problem::Retry(error),
                }
            })?;
            self.uncommitted_bytes += self.buffer.len() as u64;
            self.written = 0;
        }
        self.settled.append(&mut self.buffered);
        self.begun = begun;
        self.begin_buffer();
        Ok(())
    }

    /// Begins an empty buffer at the end of the output.
    fn begin_buffer(&mut self) {
        if self.buffer.capacity() > OUTPUT_BUFFER_BYTES_MAX {
            self.buffer = AlignedBuffer::with_capacity(OUTPUT_BUFFER_BYTES);
        }
        self.buffer.begin(self.output.position());
        self.room = self.output.room();
    }

    /// The group that is being taken, and how many of its records are in the buffer or in the output.
    fn taken(&self) -> Option<(u32, u64)> {
        self.current.as_ref().map(|current| (current.group.until().lane, current.taken))
    }

    fn remember(&self) -> Commit {
        // A buffer that waits for a new file is in no output.
        Commit::Remember { begun: if self.buffer.is_empty() { self.taken() } else { self.begun } }
    }

    /// Takes one step of a commit; `None` when another may follow at once.
    fn commit_step(&mut self, now: Now) -> io::Result<Option<Commit>> {
        let (next, commit) = match self.stage {
            Stage::Sync => {
                self.output.commit()?;
                if self.is_full { (Stage::Name, None) } else { (Stage::Follow, Some(self.remember())) }
            }
            Stage::Follow => {
                let is_new = self.has_begun && self.output.follow(now.wall)?;
                (Stage::Age, is_new.then(|| self.remember()))
            }
            Stage::Age => {
                self.is_full = self.has_begun && self.output.is_old(now.wall);
                // Starts again from the sync, because others may have written to the file meanwhile.
                (if self.is_full { Stage::Sync } else { Stage::Finish }, None)
            }
            Stage::Name => {
                self.output.begin_rotation(now.wall)?;
                (Stage::SetAside, Some(self.remember()))
            }
            Stage::SetAside => {
                self.output.rotate(now.wall)?;
                (Stage::Finish, Some(self.remember()))
            }
            Stage::Finish => {
                (self.is_full, self.has_begun) = (false, true);
                if self.buffer.is_empty() {
                    self.begin_buffer();
                } else {
                    // It waited for the new file.
                    (self.has_moved, self.room) = (false, self.output.room());
                }
                (Stage::Sync, Some(Commit::Done))
            }
        };
        self.stage = next;
        Ok(commit)
    }
}

impl Sink for TextSink {
    fn submit(&mut self, group: Group, begun: u64, now: Now) -> Result<Room, Problem> {
        self.current = Some(Current { group, cursor: GroupCursor::default(), taken: begun, received_ns: 0 });
        match self.take(now) {
            Ok(()) => Ok(Room::Free),
            // The buffer is written to the full file first.
            Err(Pause::Commit) => Ok(Room::Full),
            Err(Pause::Problem(problem)) => Err(problem),
        }
    }

    fn settle(&mut self, now: Now, settled: &mut Vec<Settled>) -> Result<Room, Problem> {
        let mut settle = || {
            loop {
                self.write(self.taken(), now)?;
                if self.is_full || self.has_moved {
                    return Ok(Room::Commit);
                }
                if self.current.is_none() {
                    return Ok(Room::Free);
                }
                match self.take(now) {
                    Ok(()) | Err(Pause::Commit) => {}
                    Err(Pause::Problem(problem)) => return Err(problem),
                }
            }
        };
        let room = settle();
        settled.append(&mut self.settled);
        room
    }

    fn commit(&mut self, now: Now) -> Result<Commit, Problem> {
        loop {
            let stage = self.stage;
            match self.commit_step(now) {
                Ok(Some(commit)) => return Ok(commit),
                Ok(None) => {}
                // The first sync covers no bytes of this run, so there is nothing to take back.
                Err(error) if stage == Stage::Sync && self.has_begun => return Err(Problem::Failed(error)),
                Err(error) => return Err(Problem::Retry(error)),
            }
        }
    }

    fn state(&self) -> String {
        self.output.state()
    }

    fn committed(&mut self, _: &[LanePlace]) {
        self.output.committed();
        self.uncommitted_bytes = 0;
    }

    fn roll_back(&mut self) -> io::Result<()> {
        self.output.roll_back()?;
        self.current = None;
        self.remainder = Remainder::default();
        self.buffered.clear();
        self.settled.clear();
        (self.written, self.stage, self.is_full) = (0, Stage::Sync, false);
        (self.has_moved, self.begun) = (false, None);
        self.begin_buffer();
        Ok(())
    }

    fn truncations(&self) -> u64 {
        self.output.truncations()
    }

    fn uncommitted_bytes(&self) -> u64 {
        self.uncommitted_bytes + self.buffer.len() as u64
    }

    fn idle(&mut self) {
        self.scratch.trim();
    }

    fn memory(&self) -> (usize, usize) {
        (self.buffer.capacity() + self.remainder.text.capacity(), self.scratch.bytes())
    }
}

impl Remainder {
    /// Skips this many messages.
    fn skip(&mut self, messages: u64) {
        self.next = self.ends.len().min(usize::try_from(messages).unwrap_or(usize::MAX));
        self.start = self.next.checked_sub(1).map_or(0, |last| self.ends[last]);
    }
}
