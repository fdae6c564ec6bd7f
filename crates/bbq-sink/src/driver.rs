//! The driver of a sink, in steps: reads a group of every lane whose turn it is, submits the groups, counts what is settled, and
//! commits from time to time. It owns retry, back-off, dead letters and the way back to the last commit.
//!
//! Invariant: a step waits for nothing except the system calls that it makes and, for at most a second, the disk of the dead
//! letters. It reads no clock: the caller passes the time, and waits as the result of the step says.
//! Invariant: the cursor never covers more than the destination holds.

mod skipping;

use std::io;
use std::time::Duration;

use bbq_spool::{Cursor, Group, LanePlace, LaneReader, Next, Progress, ReadOrder};
use tracing::{info, warn};

use super::backlog::{Backlog, Waiting};
use super::driver_parts::DriverParts;
use super::held_back::{HeldBack, Keep};
use super::in_flight::{InFlight, state_of_output};
use super::interface::{Commit, Now, Problem, Room, Settled};
use super::ledger::{Account, SKIPPED, is_full};
use super::lenses::Seen;
use super::step::{Goal, SinkStep};

/// The longest time from a write until the output and then the cursor are made durable. After a crash a sink writes this much
/// again (a file sink first cuts it off).
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);
/// If nothing was read or settled for this long, the driver commits, so that a quiet server has nothing to repeat.
const IDLE_COMMIT: Duration = Duration::from_millis(50);
/// Commit after this many bytes, so that segments can be deleted before the spool is full.
const COMMIT_BYTES: u64 = 64 * 1024 * 1024;
/// This limit right after the output has failed; each commit doubles it. On a disk that is nearly full, a small part may still
/// fit.
const COMMIT_BYTES_MIN: u64 = 1024 * 1024;
/// First and longest pause before a failed output is tried again.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(50);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);
/// When the server is to hold, a destination has this long to take what is on its way. The rest is sent again later.
const HOLD_PATIENCE: Duration = Duration::from_secs(1);
/// The longest pause of a sink that gives up messages over its limits: until then they fill the spool.
const LIMITED_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Most groups of a lane that are given up or left out in a step: those of some seconds.
const GIVEN_UP_MAX: usize = 4096;
/// A step ends after so many bytes of groups that are left out: they are read, and the rules look at each message.
const LEFT_OUT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What is kept for a destination that may lose it takes at most this part of the spool, so that there is room for what comes.
const KEPT_PART_OF_SPOOL: u64 = 4;
/// A sink that gathers messages delivers them early when more than this part of the spool is taken.
const HELD_PART_OF_SPOOL: u64 = 2;

/// What the log says of a sink that cannot deliver.
const FAILED: &str = "sink failed; retrying until it works, messages stay spooled";
const FULL: &str = "the disk, or the quota of this user on it, is full; messages stay spooled, delivery resumes automatically when there is room";

/// What is to be done before more is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Nothing.
    Deliver,
    /// The sink makes durable what is settled.
    Commit,
    /// The cursor is written; then the commit goes on, unless this was its last part.
    Remember { is_last: bool },
    /// The driver rolls back to the last commit.
    RollBack,
}

/// What became of a lane's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// There is nothing to read.
    Nothing,
    /// A group was submitted, or records are lost.
    Taken,
    /// A group was given up.
    GivenUp,
    /// The rules leave out all of a group, of so many bytes.
    LeftOut(usize),
}

/// See the module.
pub struct SinkDriver {
    parts: DriverParts,
    order: ReadOrder,
    in_flight: InFlight,
    /// Empty unless the sink wants to keep what is delivered.
    held_back: HeldBack,
    /// Given to the sink to fill.
    settled: Vec<Settled>,
    now: Now,
    task: Task,
    room: Room,
    /// When a step last read or settled something.
    last_progress: Duration,
    /// When something was last settled, or nothing was on its way.
    last_settled: Duration,
    /// The time of the first step after the last commit; `None` until that step begins.
    last_commit: Option<Duration>,
    /// When the cursor's file was last looked for.
    last_look: Duration,
    /// Something has changed since the last commit.
    is_dirty: bool,
    /// Part of a group was settled since the last commit. This alone waits for the commit interval.
    has_begun: bool,
    /// [`Sink::progress`](crate::Sink::progress) at the last look.
    progress: u64,
    commit_bytes: u64,
    retry_pause: Duration,
    /// The spool cannot be read. A commit does not clear this problem.
    reading_fails: bool,
    /// The destination does not take what was submitted. A commit of what it took before does not clear this problem.
    settling_fails: bool,
    /// Since when the server is to hold.
    holding_since: Option<Duration>,
    /// A lane could not be read in this step: how long to pause before the next step.
    pause: Option<Duration>,
    /// The next step looks where the path of the output leads.
    reopens: bool,
    /// The driver rolls back when the commit that it has begun is done.
    rolls_back_after: bool,
}

impl SinkDriver {
    /// The first step commits: the cursor has the state of the output before the first message is submitted.
    pub(crate) fn new(parts: DriverParts, now: Now) -> SinkDriver {
        SinkDriver {
            order: parts.spool.read_order(),
            in_flight: InFlight::of(&parts.committed),
            held_back: HeldBack::default(),
            settled: Vec::new(),
            now,
            task: Task::Commit,
            room: Room::Free,
            last_progress: now.monotonic,
            last_settled: now.monotonic,
            last_commit: None,
            last_look: now.monotonic,
            is_dirty: true,
            has_begun: false,
            progress: 0,
            commit_bytes: COMMIT_BYTES,
            retry_pause: RETRY_PAUSE_MIN,
            reading_fails: false,
            settling_fails: false,
            holding_since: None,
            pause: None,
            reopens: false,
            rolls_back_after: false,
            parts,
        }
    }

    /// See [`Sink::gathers_for`](crate::Sink::gathers_for).
    pub fn gathers_for(&self) -> Duration {
        self.parts.sink.gathers_for()
    }

    /// Waits after [`SinkStep::Idle`].
    pub fn wait(&mut self, progress: &Progress, seen: u64, patience: Duration) {
        self.parts.sink.wait(progress, seen, patience);
    }

    /// Closes what would take long to close when the sink ends. Called before it holds.
    pub fn close_idle(&mut self) {
        self.parts.dead_letters.close();
    }

    /// Somebody may have moved the output away: the next step makes durable what it got, and goes on where its path leads then.
    pub fn reopen(&mut self) {
        self.reopens = true;
    }

    /// Makes durable what the destination has taken, for one that may fail now. What is in doubt is rolled back first.
    pub(crate) fn commit_taken(&mut self) -> Result<(), Problem> {
        self.advance()?;
        self.commit()
    }

    /// The same, and leaves the dead letters to somebody else until there are more of them.
    pub(crate) fn release_letters(&mut self) -> Result<(), Problem> {
        self.commit_taken()?;
        self.parts.dead_letters.forget();
        Ok(())
    }

    pub(crate) fn add_letters_deleted(&self, records: u64) {
        self.parts.ledger.add_letters_deleted(records);
    }

    /// See [`CursorStore::earlier`](bbq_spool::CursorStore::earlier).
    pub(crate) fn earlier_names(&self) -> &[String] {
        self.parts.store.earlier()
    }

    /// Keeps the cursor, which must be committed, and further dead letters under another name.
    pub(crate) fn rename(&mut self, name: &str) -> io::Result<()> {
        let parts = &mut self.parts;
        parts.store = parts.store.rename(name, &parts.committed)?;
        parts.dead_letters.rename(name);
        name.clone_into(&mut parts.name);
        Ok(())
    }

    /// What the sink has told the cursor to remember.
    pub(crate) fn state_of_output(&self) -> &str {
        state_of_output(&self.parts.committed.output)
    }

    pub(crate) fn window_bytes(&self) -> u64 {
        self.parts.window_bytes
    }

    /// The name of the sink.
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// The last commit.
    pub fn committed(&self) -> &Cursor {
        &self.parts.committed
    }

    /// Messages that an operator has skipped, also in the middle of groups.
    pub fn skipped(&self) -> u64 {
        self.parts.ledger.account().dropped.get(SKIPPED).copied().unwrap_or_default()
    }

    /// Messages that the destination has.
    pub fn delivered(&self) -> u64 {
        self.parts.ledger.account().delivered
    }

    /// Whether everything durable was read, delivered and committed.
    pub fn is_drained(&self) -> bool {
        let is_done = self.task == Task::Deliver && !self.is_dirty && self.in_flight.is_empty();
        is_done && self.parts.readers.iter().all(|reader| reader.queued() == 0)
    }

    /// What the sink waits for, as a text for people.
    pub fn describe(&self) -> String {
        let queued: Vec<u64> = self.parts.readers.iter().map(LaneReader::queued).collect();
        format!("queued {queued:?}, {:?}, dirty {}", self.task, self.is_dirty)
    }

    /// The first commit, which a start waits for.
    ///
    /// # Errors
    /// Why it failed; try again.
    pub fn begin(&mut self) -> io::Result<()> {
        self.advance().map_err(|problem| {
            if let Problem::Failed(_) = problem {
                self.task = Task::RollBack;
            }
            problem.into()
        })
    }

    /// Takes a step. A part of its work may be left for the next step.
    pub fn step(&mut self, now: Now, goal: Goal) -> SinkStep {
        self.now = now;
        self.last_commit.get_or_insert(now.monotonic);
        self.try_step(goal).unwrap_or_else(|problem| self.handle(problem))
    }

    fn try_step(&mut self, goal: Goal) -> Result<SinkStep, Problem> {
        self.parts.sink.set_goal(goal);
        let usage = self.parts.spool.usage();
        self.parts.sink.hurry(usage.bytes() > usage.bytes_max() / HELD_PART_OF_SPOOL);
        let is_stuck = self.is_stuck_over_limit();
        if is_stuck {
            // What is read again is given up.
            self.commit()?;
            self.task = Task::RollBack;
        }
        self.advance()?;
        let mut progressed = self.settle()?;
        if self.reopens {
            self.commit()?;
            self.reopens = false;
        }
        if let Some(problem) = self.parts.sink.standing_problem() {
            self.show(problem);
        }
        if goal == Goal::Hold {
            let since = *self.holding_since.get_or_insert(self.now.monotonic);
            let is_over = self.now.monotonic.saturating_sub(since) >= HOLD_PATIENCE;
            let has_finished = self.parts.sink.finish(self.now);
            if has_finished && (self.in_flight.is_empty() || (is_over && self.parts.sink.may_give_up())) {
                self.commit()?;
                if !self.in_flight.is_empty() {
                    self.task = Task::RollBack;
                    self.advance()?;
                }
                return Ok(SinkStep::Held);
            }
        } else {
            self.holding_since = None;
            progressed |= self.read()?;
        }
        if progressed {
            self.last_progress = self.now.monotonic;
        }
        // The next step may end where the destination fails, and segments wait for the commit.
        if is_stuck || self.is_commit_due() {
            self.commit()?;
        }
        if let Some(pause) = self.pause.take() {
            return Ok(self.retry(pause));
        }
        if progressed {
            return Ok(SinkStep::Progressed);
        }
        if goal == Goal::Drain
            && self.is_read_to_the_end()
            && self.parts.sink.finish(self.now)
            && self.in_flight.is_empty()
        {
            self.commit()?;
            return Ok(SinkStep::Drained);
        }
        self.parts.sink.idle();
        if let Some(lenses) = &mut self.parts.lenses {
            lenses.trim();
        }
        if !self.is_dirty {
            // Nothing will be committed soon, which would have the same effect.
            if let Some(retention) = &self.parts.retention {
                retention.retire();
            }
            self.look_for_cursor();
        }
        Ok(SinkStep::Idle(if self.is_dirty { IDLE_COMMIT } else { COMMIT_INTERVAL }))
    }

    /// Writes the cursor again if somebody has deleted it: without it, the next start would deliver everything again.
    fn look_for_cursor(&mut self) {
        if self.now.monotonic.saturating_sub(self.last_look) >= COMMIT_INTERVAL {
            self.last_look = self.now.monotonic;
            self.is_dirty = self.parts.store.is_missing();
        }
    }

    /// Whether a step that has read nothing could have read more.
    fn is_read_to_the_end(&self) -> bool {
        (0..self.parts.readers.len()).all(|index| self.has_room(index))
    }

    /// Whether a group of this reader may be submitted.
    fn has_room(&self, index: usize) -> bool {
        let lane = self.parts.readers[index].place().lane;
        let sink = &self.parts.sink;
        let is_full = self.in_flight.is_full(index, sink.groups_max());
        let fits = self.in_flight.bytes() < self.parts.window_bytes;
        self.room == Room::Free && !is_full && fits && sink.has_room_for(lane)
    }

    fn is_commit_due(&self) -> bool {
        let since = |then: Duration| self.now.monotonic.saturating_sub(then);
        let last_commit = self.last_commit.unwrap_or(self.now.monotonic);
        let is_late = since(last_commit) >= COMMIT_INTERVAL;
        let is_idle = since(self.last_progress) >= IDLE_COMMIT;
        let is_full = self.parts.dead_letters.is_full();
        let is_held_back = self.held_back.is_due(self.now.monotonic, self.keep());
        (is_late && (self.has_begun || is_held_back)) || (self.is_dirty && (is_late || is_idle || is_full))
    }

    /// Whether the sink is over its limits, and its destination takes nothing of what is on its way.
    fn is_stuck_over_limit(&mut self) -> bool {
        if !self.parts.backlog.gives_up() {
            return false;
        }
        if self.in_flight.is_empty() {
            self.last_settled = self.now.monotonic;
            return false;
        }
        let waited = self.now.monotonic.saturating_sub(self.last_settled);
        let sink = &self.parts.sink;
        let is_stuck = self.settling_fails || (sink.may_give_up() && waited >= sink.takes_within());
        if self.task != Task::Deliver || !is_stuck {
            return false;
        }
        let usage = self.parts.spool.usage();
        let is_nearly_full = usage.bytes() > usage.bytes_max() / 8 * 7;
        let unread = self.unread_bytes();
        let waiting = Waiting {
            bytes: unread.saturating_add(self.in_flight.bytes()),
            bytes_after_first: unread.saturating_add(self.in_flight.bytes_after_first()),
            received_ns: self.in_flight.oldest_ns(),
        };
        self.parts.backlog.is_far_exceeded(waiting, (usage.bytes_max(), is_nearly_full), self.now.wall)
    }

    /// Why a group that was read is not submitted, if so. `place` is where it begins.
    fn why_not(&self, group: &Group, place: LanePlace) -> Option<&'static str> {
        let DriverParts { backlog, spool, .. } = &self.parts;
        // Most sinks take everything, and the sums cost something.
        if *backlog == Backlog::default() {
            return None;
        }
        let bytes_after_first = self.unread_bytes();
        let bytes = bytes_after_first + group.until().position.saturating_sub(place.position);
        let waiting = Waiting { bytes, bytes_after_first, received_ns: group.received_ns() };
        backlog.why_not(waiting, spool.usage().bytes_max(), self.now.wall)
    }

    /// In all lanes.
    fn unread_bytes(&self) -> u64 {
        self.parts.readers.iter().map(LaneReader::unread_bytes).fold(0, u64::saturating_add)
    }

    /// Submits one group of each lane whose turn it is, and passes groups before it that are over the sink's limits or left out. Returns
    /// whether there was any.
    fn read(&mut self) -> Result<bool, Problem> {
        let (mut progressed, mut left_out) = (false, 0);
        for _ in 0..GIVEN_UP_MAX {
            let mut gave_up = false;
            for index in 0..self.parts.readers.len() {
                if self.has_room(index) && self.order.is_due(&self.parts.readers, index) {
                    let read = self.read_lane(index)?;
                    progressed |= read != Read::Nothing;
                    gave_up |= matches!(read, Read::GivenUp | Read::LeftOut(_));
                    left_out += if let Read::LeftOut(bytes) = read { bytes } else { 0 };
                    if self.parts.sink.uncommitted_bytes() >= self.commit_bytes {
                        self.settle()?;
                        self.commit()?;
                    }
                }
            }
            if !gave_up || left_out >= LEFT_OUT_BYTES_MAX {
                break;
            }
        }
        Ok(self.settle()? || progressed)
    }

    fn read_lane(&mut self, index: usize) -> Result<Read, Problem> {
        let reader = &mut self.parts.readers[index];
        let mut read = Read::Taken;
        let place = reader.place();
        match reader.next_group() {
            Ok(Next::CaughtUp) => return Ok(Read::Nothing),
            Ok(Next::Group(group)) => match self.why_not(&group, place) {
                Some(reason) => {
                    self.in_flight.give_up(index, &group, reason);
                    read = Read::GivenUp;
                }
                None => read = self.submit(index, group)?,
            },
            Ok(Next::Lost(lost)) => {
                let records = self.in_flight.lose(index, reader.place(), lost);
                if records > 0 {
                    warn!(sink = self.parts.name, records, reason = ?lost.reason, "messages will not be delivered");
                }
            }
            Err(error) => {
                // The other lanes still have their turn.
                self.reading_fails = true;
                let error = io::Error::new(error.kind(), format!("cannot read the spool: {error}"));
                self.pause = Some(self.report(&error));
                return Ok(Read::Nothing);
            }
        }
        if std::mem::take(&mut self.reading_fails) {
            // The next commit clears the problem that is shown.
            self.is_dirty = true;
            self.retry_pause = RETRY_PAUSE_MIN;
        }
        Ok(read)
    }

    /// Submits a group, unless the rules leave out all of it.
    fn submit(&mut self, index: usize, group: Group) -> Result<Read, Problem> {
        let Seen { group, filtered, is_empty } = Seen::through(self.parts.lenses.as_mut(), group);
        if is_empty {
            if self.in_flight.is_empty() {
                self.parts.ledger.set_last_received_ns(group.received_ns().unwrap_or_default());
            }
            self.in_flight.leave_out(index, &group, filtered);
            return Ok(Read::LeftOut(group.bytes()));
        }
        let begun = self.in_flight.submit(index, &group, filtered);
        if self.parts.backlog.gives_up() {
            self.in_flight.set_received(index, group.received_ns());
        }
        self.room = self.parts.sink.submit(group, begun, self.now)?;
        Ok(Read::Taken)
    }

    /// Lets the sink go on with what was submitted. Returns whether anything was settled.
    fn settle(&mut self) -> Result<bool, Problem> {
        let mut progressed = false;
        loop {
            let room = self.parts.sink.settle(self.now, &mut self.settled);
            // What is given up is no progress of the destination.
            let has_taken = !self.settled.is_empty();
            progressed |= self.count_settled();
            if self.update_progress() || has_taken {
                (self.settling_fails, self.last_settled) = (false, self.now.monotonic);
            }
            self.settling_fails |= matches!(room, Err(Problem::Retry(_)));
            self.room = room?;
            if self.room != Room::Commit {
                return Ok(progressed);
            }
            self.commit()?;
        }
    }

    /// Returns whether anything was settled since the last call. While a destination takes something, the pause before a retry
    /// does not grow, however large the group is.
    fn update_progress(&mut self) -> bool {
        let progress = self.parts.sink.progress();
        if std::mem::replace(&mut self.progress, progress) == progress {
            return false;
        }
        self.has_begun = true;
        if !self.reading_fails {
            self.retry_pause = RETRY_PAUSE_MIN;
        }
        true
    }

    /// Counts what is settled.
    fn count_settled(&mut self) -> bool {
        for settled in self.settled.drain(..) {
            self.parts.ledger.set_last_received_ns(settled.received_ns);
            self.in_flight.settle(settled);
        }
        let totals = self.in_flight.advance();
        let Some(totals) = totals else { return false };
        self.parts.ledger.advance(self.in_flight.places(), &totals, self.in_flight.begun());
        if let Some(replica) = &self.parts.replica {
            replica.advance(self.in_flight.places());
        }
        self.parts.dead_letters.keep(totals.letters);
        self.is_dirty = true;
        true
    }

    /// Makes durable what is settled, and then the cursor.
    fn commit(&mut self) -> Result<(), Problem> {
        self.task = Task::Commit;
        self.advance()
    }

    /// Does what must be done before more is submitted.
    fn advance(&mut self) -> Result<(), Problem> {
        loop {
            self.task = match self.task {
                Task::Deliver => return Ok(()),
                Task::Commit => match self.commit_step()? {
                    Commit::Remember { begun } => {
                        if let Some((lane, records)) = begun {
                            self.in_flight.begin(lane, records);
                            self.parts.ledger.set_begun(self.in_flight.begun());
                        }
                        Task::Remember { is_last: false }
                    }
                    Commit::RememberLast => Task::Remember { is_last: true },
                    Commit::Done => self.finish_commit(),
                },
                Task::Remember { is_last } => {
                    self.remember().map_err(Problem::Retry)?;
                    if is_last { self.finish_commit() } else { Task::Commit }
                }
                Task::RollBack => {
                    self.roll_back().map_err(Problem::Retry)?;
                    Task::Deliver
                }
            };
        }
    }

    /// Dead letters come first, because the cursor passes the rejected messages.
    fn commit_step(&mut self) -> Result<Commit, Problem> {
        self.begin_groups();
        let kept = self.parts.dead_letters.commit();
        self.parts.ledger.add_letters_deleted(self.parts.dead_letters.take_deleted());
        kept.map_err(Problem::Retry)?;
        let committed = self.parts.sink.commit(self.now);
        self.parts.ledger.set_truncations(self.parts.sink.truncations());
        if let Some(lenses) = &self.parts.lenses {
            self.parts.ledger.set_filter_failed(lenses.failed());
        }
        committed
    }

    /// Prepares the cursor to remember the settled records at the beginning of each lane's first unsettled group. The cursor does
    /// not remember how much of later groups is settled: like whole groups behind a gap, they are submitted again.
    fn begin_groups(&mut self) {
        for reader in 0..self.parts.readers.len() {
            let first = self.in_flight.first(reader);
            if let Some(part) = first.and_then(|until| self.parts.sink.settled_part(until)) {
                self.parts.dead_letters.keep(self.in_flight.begin_with(reader, part));
            }
        }
        self.parts.ledger.set_begun(self.in_flight.begun());
    }

    /// Returns what is to be done next.
    fn finish_commit(&mut self) -> Task {
        self.is_dirty = false;
        self.has_begun = false;
        self.last_commit = None;
        self.commit_bytes = (self.commit_bytes * 2).min(COMMIT_BYTES);
        let next = if std::mem::take(&mut self.rolls_back_after) { Task::RollBack } else { Task::Deliver };
        if self.reading_fails || self.settling_fails || self.parts.sink.standing_problem().is_some() {
            return next;
        }
        self.retry_pause = RETRY_PAUSE_MIN;
        if self.parts.ledger.problem().is_some() {
            info!(sink = self.parts.name, "sink works again");
            self.parts.ledger.set_problem(None);
        }
        next
    }

    /// How far the cursor stays behind.
    fn keep(&self) -> Keep {
        let bytes = self.parts.spool.usage().bytes_max() / KEPT_PART_OF_SPOOL;
        Keep { time: self.parts.sink.keep(), bytes }
    }

    /// Writes the cursor, or one that was held back. Everything that it covers is durable.
    fn remember(&mut self) -> io::Result<()> {
        let keep = self.keep();
        // A cursor in another directory would be another server's.
        self.parts.spool.check_in_place().map_err(io::Error::other)?;
        let parts = &mut self.parts;
        let Account { delivered, dropped, filtered, .. } = parts.ledger.account_of_groups();
        let places = self.in_flight.places().to_vec();
        let cursor = if keep.time.is_zero() {
            // Places and state belong together.
            self.held_back.clear();
            let output = self.in_flight.state(&parts.sink.state());
            Cursor { places, delivered, dropped, filtered, output }
        } else {
            let output = self.in_flight.state("");
            let now = self.now.monotonic;
            self.held_back.push(now, Cursor { places, delivered, dropped, filtered, output });
            let due = self.held_back.take(now, keep).unwrap_or_else(|| parts.committed.clone());
            // The state is that of now, also if the places are older.
            let begun = due.output.len() - state_of_output(&due.output).len();
            let output = format!("{}{}", &due.output[..begun], parts.sink.state());
            Cursor { output, ..due }
        };
        if let Err(error) = parts.store.commit(&cursor) {
            // What was taken is added again by the next try.
            self.held_back.clear();
            return Err(error);
        }
        if let Some(retention) = &parts.retention {
            retention.commit(parts.index, cursor.places.clone());
        }
        if let Some(replica) = &parts.replica {
            replica.advance(&cursor.places);
        }
        parts.sink.committed(&cursor.places);
        parts.committed = cursor;
        Ok(())
    }

    /// Submits again what came after the last commit.
    fn roll_back(&mut self) -> io::Result<()> {
        // This comes first: on a full disk, the bytes that are cut off may make the room that the cursor needs.
        self.parts.sink.roll_back()?;
        self.parts.dead_letters.forget();
        // A cursor that was held back is behind what was counted.
        self.parts.roll_back_ledger();
        self.in_flight = InFlight::of(&self.parts.committed);
        self.held_back.clear();
        self.settled.clear();
        self.remember()?;
        let cursor = Cursor { places: self.in_flight.places().to_vec(), ..Cursor::default() };
        self.parts.readers = self.parts.spool.readers(&cursor);
        self.order = self.parts.spool.read_order();
        self.room = Room::Free;
        self.is_dirty = true;
        // What is submitted again has its whole time.
        (self.settling_fails, self.last_settled) = (false, self.now.monotonic);
        self.rolls_back_after = false;
        // One that is over its limits does so again and again while its destination is away.
        if !self.parts.backlog.gives_up() {
            info!(
                sink = self.parts.name,
                "rolled back to the last commit; writing the messages after it again"
            );
        }
        Ok(())
    }

    /// Handles a problem that ended a step.
    fn handle(&mut self, problem: Problem) -> SinkStep {
        match problem {
            Problem::Retry(error) => {
                let pause = self.report(&error);
                self.retry(pause)
            }
            Problem::Failed(error) => {
                // Nothing after the last commit can be trusted: the ledger is rolled back at once, the output as soon as it can be
                // cut. The cursor on disk is that of the last commit: while a cursor cannot be written, a step does nothing else.
                self.parts.roll_back_ledger();
                self.commit_bytes = COMMIT_BYTES_MIN;
                self.task = Task::RollBack;
                let pause = self.report(&error);
                self.retry(pause)
            }
            Problem::Blocked { is_clean } => SinkStep::Blocked { is_clean },
        }
    }

    /// The spool of the dead letters cannot be closed while its disk does not respond to a write: the sink must not hold then.
    fn retry(&self, pause: Duration) -> SinkStep {
        SinkStep::Retry { pause, may_hold: !self.parts.dead_letters.is_writing() }
    }

    /// Shows the problem until a commit succeeds. Returns how long to leave the output alone.
    pub fn report(&mut self, error: &io::Error) -> Duration {
        if self.parts.ledger.problem().is_none() {
            let what = if is_full(error) { FULL } else { FAILED };
            warn!(sink = self.parts.name, %error, "{what}");
        }
        self.parts.ledger.set_error(error);
        let pause = self.retry_pause;
        let max = if self.parts.backlog.gives_up() { LIMITED_PAUSE_MAX } else { RETRY_PAUSE_MAX };
        self.retry_pause = (pause * 2).min(max);
        pause
    }

    fn show(&mut self, error: String) {
        if self.parts.ledger.problem().is_none() {
            warn!(sink = self.parts.name, %error, "{FAILED}");
        }
        self.parts.ledger.set_problem(Some(error));
    }

    /// See [`Sink::memory`](crate::Sink::memory).
    pub fn memory(&self) -> (usize, usize) {
        self.parts.sink.memory()
    }
}
