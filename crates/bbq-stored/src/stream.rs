//! One sender's stream: which of its numbers are appended and which are durable, its home lane, whose it is, and the connection that
//! sends it now. [`Stream::append`] is the only way to append to it.
//!
//! A number that is missing may still come: over another server, or from a lane whose disk failed. Only the client that numbers the
//! stream can say that a number never comes ([`bbq_wire::Batch::given_up`]). So a stream knows *ranges* of numbers: what comes late is
//! stored, what is known is dropped, and where that cannot be told, the batch is refused and its sender waits.
//!
//! Invariant: a stream's lock is taken per batch, and by one connection at a time.
//! Invariant: the batches of a stream that are not durable are in one lane.
//! Invariant: `durable` is a part of `known`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bbq_spool::{Lane, LaneError, NameMark};
use bbq_wire::ranges::RANGES_MAX;
use bbq_wire::{BatchHeader, Check, Progress, Ranges, Span, StreamId};
use tokio::sync::Notify;

use super::belongs::Belongs;
use super::checkpoint::Known;
use super::visitor::{NotAdmitted, Visitor};
use crate::identity::Identity;

/// The owner of a stream whose last batch came in a request. Connections are numbered from 1.
const NO_OWNER: u64 = 0;

/// One sender's stream.
#[derive(Debug, Default)]
pub struct Stream {
    state: Mutex<State>,
    moved: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Numbers that were appended to a lane, durable or not, and numbers that were given up.
    known: Ranges,
    /// Those that are on disk, and numbers that were given up.
    durable: Ranges,
    /// Batches that were appended and are not durable.
    pending: u32,
    /// The highest number that the client itself was told to be stored. Clients that do not say where they are go on after it.
    told: u64,
    /// The lowest such number, 0 for none. The table has seen all of the stream's messages from it on. Of those below, the client may have been
    /// told before the table forgot the stream.
    told_from: u64,
    /// The connection that owns the stream: the newest.
    owner: u64,
    /// The lane of its last batch.
    home: Option<u32>,
    /// A position of the home lane that is not before the last durable batch.
    home_position: u64,
    /// The highest epoch of all hellos; 0 before the first hello with an epoch.
    epoch: u64,
    /// The name of the token with which it was begun.
    belongs: Belongs,
    /// That of the name: it goes into the lane with each batch.
    mark: NameMark,
    /// Who sent it, for the shares of the table.
    holder: Identity,
    /// Its client goes on with it after a restart.
    is_kept: bool,
    /// Unix seconds of the last batch.
    last_seen: u64,
    /// A lane failed that had batches of this stream in memory.
    has_failed: bool,
}

/// By which way a batch comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over the connection with this number, which has to own the stream.
    Session(u64),
    /// From another server, which needs no connection that owns the stream. Where earlier batches are unread in another lane, the flag
    /// says whether to append all the same.
    Relay {
        /// See above.
        gives_up_order: bool,
    },
    /// In a request, or from a reader. Numbers may not be skipped but for those that the batch gives up, and no connection owns the stream
    /// afterwards.
    Request,
    /// As [`Way::Request`], from a sender whose numbers have gaps that it says nothing of: those of a journal. What comes late is stored.
    Upload,
}

/// The lanes, as seen by the worker of one of them.
pub struct Lanes<P, S> {
    /// The worker's own lane.
    pub here: u32,
    /// Returns the position up to which every sink has committed a lane.
    pub passed: P,
    /// Returns what a lane does with more batches.
    pub state: S,
}

impl<P: Fn(u32) -> u64, S: Fn(u32) -> LaneState> Lanes<P, S> {
    /// For a worker with this lane.
    pub fn new(here: u32, passed: P, state: S) -> Lanes<P, S> {
        Lanes { here, passed, state }
    }
}

/// The numbers of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// Those of its records.
    pub records: Span,
    /// How many numbers directly before them will never come.
    pub given_up: u64,
}

impl Numbers {
    /// Those of a batch that gives up `given_up` numbers.
    #[inline]
    pub fn of(header: &BatchHeader, given_up: u64) -> Numbers {
        let records = Span { first: header.first_sequence, last: header.last_sequence() };
        Numbers { records, given_up }
    }

    /// All numbers that the batch settles.
    pub fn settled(self) -> Span {
        Span { first: self.records.first - self.given_up, ..self.records }
    }
}

impl State {
    fn is_durable(&self) -> bool {
        self.pending == 0
    }

    /// Whether a hello with this epoch is late: a newer connection's hello was read before. If not, remembers the epoch.
    fn is_outdated(&mut self, epoch: u64) -> bool {
        let is_outdated = epoch != 0 && epoch < self.epoch;
        self.epoch = self.epoch.max(epoch);
        is_outdated
    }

    /// Chooses the lane for the next batches, for a batch or session at the worker of lane `here`. A stream with nothing unread in its
    /// home may move. It moves with its next batch and not before: a checkpoint in between has to say where the unread batches are. The
    /// next start may find a lane in order that has failed in this run.
    fn find_home(&self, lanes: &Lanes<impl Fn(u32) -> u64, impl Fn(u32) -> LaneState>) -> Home {
        match self.home {
            None => Home::Here,
            Some(home) if home == lanes.here => Home::Here,
            Some(home) => {
                if self.is_durable() && self.home_position <= (lanes.passed)(home) {
                    Home::Here
                } else {
                    match (lanes.state)(home) {
                        LaneState::Open => Home::Elsewhere(home),
                        LaneState::Unwritten => Home::Here,
                        LaneState::Failed => Home::Lost(home),
                    }
                }
            }
        }
    }

    fn set_belongs(&mut self, belongs: Belongs) {
        self.mark = belongs.mark();
        self.belongs = belongs;
    }

    fn move_home(&mut self, here: u32) {
        if self.home != Some(here) {
            self.home = Some(here);
            // Nothing of the stream is in the new home yet.
            self.home_position = 0;
        }
    }

    /// Whether the batch goes into lane `here`. `Some` is a failed lane in which earlier messages are unread.
    fn place(
        &self,
        way: Way,
        lanes: &Lanes<impl Fn(u32) -> u64, impl Fn(u32) -> LaneState>,
    ) -> Result<Option<u32>, NotAppended> {
        // What was in the lane's memory may be on its disk, or not: that shows when the server starts again. Until then it is not known,
        // and may not be acknowledged.
        if self.has_failed && !self.is_durable() {
            return Err(NotAppended::Failed("a lane failed; the server must be restarted".to_owned()));
        }
        match way {
            Way::Session(_) if self.home == Some(lanes.here) => Ok(None),
            // The batches of two lanes are never on their way at a time.
            _ if self.home.is_some_and(|home| home != lanes.here) && !self.is_durable() => {
                Err(NotAppended::Elsewhere(self.home))
            }
            // A session whose home was here when it began may find it elsewhere: another server relays the same stream.
            _ => match self.find_home(lanes) {
                Home::Elsewhere(_) if way == (Way::Relay { gives_up_order: true }) => Ok(None),
                Home::Elsewhere(home) => Err(NotAppended::Elsewhere(Some(home))),
                Home::Lost(home) => Ok(Some(home)),
                Home::Here | Home::Outdated => Ok(None),
            },
        }
    }

    /// Notes that the client itself is told of these numbers, once they are durable.
    fn note_told(&mut self, numbers: Span) {
        self.told = self.told.max(numbers.last);
        self.told_from = if self.told_from == 0 { numbers.first } else { self.told_from.min(numbers.first) };
    }

    /// Whether the table knows what the client was told up to number `done`; without `done`, whether it knows of any. A forgotten stream may
    /// have come into the table again in the middle: by a link, or by messages that the client has sent since.
    fn knows_what_was_told(&self, done: Option<u64>) -> bool {
        self.durable.highest_up_to(self.told) > 0 && done.is_none_or(|done| self.told_from <= done.max(1))
    }

    /// Where a client goes on that needs nothing up to number `done` any more; without `done`, after what it was told.
    fn resume_after(&self, done: Option<u64>) -> u64 {
        let from = done.unwrap_or(self.told);
        let next = from.saturating_add(1);
        self.durable.end_of_run(next).unwrap_or_else(|| self.durable.highest_up_to(from))
    }
}

impl Stream {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a batch to lane `lanes.here` by `put`, if it is new: whatever comes to a stream comes through here. The caller was let in
    /// by [`super::streams::Streams::admit`], and has checked that the batch is complete and within the limits. `put` gets the mark of the
    /// name to which the stream belongs.
    ///
    /// # Errors
    /// Why the batch is neither stored nor known.
    pub fn append(
        &self,
        way: Way,
        lanes: &Lanes<impl Fn(u32) -> u64, impl Fn(u32) -> LaneState>,
        numbers: Numbers,
        put: impl FnOnce(NameMark) -> Result<u64, LaneError>,
    ) -> Result<Appended, NotAppended> {
        let mut state = self.state();
        if let Way::Session(owner) = way
            && state.owner != owner
        {
            return Err(NotAppended::TakenOver);
        }
        // Before the numbers are looked at, also where all are known: behind them come those whose order is to be kept.
        let order_lost = state.place(way, lanes)?;
        let (records, settled) = (numbers.records, numbers.settled());
        match state.known.check(records) {
            Check::New => {}
            Check::Known => {
                let given_up = (settled.first < records.first)
                    .then(|| Span { first: settled.first, last: records.first - 1 });
                // That they never come is certain, wherever the records are.
                if let Some(given_up) = given_up {
                    state.known.insert(given_up);
                    state.durable.insert(given_up);
                }
                if matches!(way, Way::Session(_)) {
                    state.note_told(settled);
                }
                let is_durable = state.durable.check(records) == Check::Known;
                return Ok(Appended::Known { is_durable });
            }
            Check::Partly(unknown) => return Ok(Appended::Partly(unknown)),
            Check::Unsure => {
                return Err(NotAppended::Unsure { numbers: state.known.unsure().unwrap_or(records) });
            }
        }
        let before = settled.first - 1;
        if way == Way::Request && before > 0 && state.known.end_of_run(before).is_none() {
            return Err(NotAppended::Gap { known: state.known.mark() });
        }
        let group = match put(state.mark) {
            Ok(group) => group,
            Err(LaneError::Full) => return Ok(Appended::Full),
            Err(error) => return Err(NotAppended::Failed(error.to_string())),
        };
        state.move_home(lanes.here);
        let missing = settled.first - 1 - state.known.highest_up_to(settled.first - 1);
        state.known.insert(settled);
        state.known.limit(RANGES_MAX);
        state.pending += 1;
        let had_owner = match way {
            Way::Session(_) => {
                state.note_told(settled);
                false
            }
            Way::Relay { .. } => false,
            Way::Request | Way::Upload => {
                state.note_told(settled);
                std::mem::replace(&mut state.owner, NO_OWNER) != NO_OWNER
            }
        };
        drop(state);
        if had_owner {
            self.notify();
        }
        Ok(Appended::New { group, missing, order_lost })
    }

    /// Notes that a batch with these numbers is on disk, before `position` of the home lane.
    pub fn set_durable(&self, settled: Span, position: u64, now_seconds: u64) {
        let mut state = self.state();
        state.durable.insert(settled);
        state.durable.limit(RANGES_MAX);
        state.pending = state.pending.saturating_sub(1);
        state.home_position = position;
        state.last_seen = now_seconds;
        drop(state);
        self.notify();
    }

    /// The number of the last batch that a link has brought, if connection `owner` owns the link.
    pub fn link_number(&self, owner: u64) -> Option<u64> {
        let state = self.state();
        (state.owner == owner).then(|| state.known.highest())
    }

    /// Notes that a link has brought its next batch, which waits for the disk if `waits`.
    pub fn add_to_link(&self, number: u64, waits: bool) {
        let (mut state, span) = (self.state(), Span { first: number, last: number });
        state.known.insert(span);
        if waits {
            state.pending += 1;
        } else {
            state.durable.insert(span);
        }
        drop(state);
        if !waits {
            self.notify();
        }
    }

    /// Whether this connection owns the stream.
    pub fn is_owned_by(&self, owner: u64) -> bool {
        self.state().owner == owner
    }

    /// The number up to which everything is on disk or given up, of a stream whose numbers are positions in a file.
    ///
    /// A stream with a gap has lost the numbers in the gap with a damaged segment, which is counted and named. What is behind the gap is
    /// stored, so the file goes on behind that.
    pub fn position(&self) -> u64 {
        self.state().durable.highest()
    }

    /// What a checkpoint remembers of it.
    pub(crate) fn known(&self, id: StreamId) -> Known {
        let state = self.state();
        Known {
            id,
            numbers: state.durable.clone(),
            told: state.told,
            told_from: state.told_from,
            seen: state.last_seen,
            home: state.home.map(|lane| (lane, state.home_position)),
            belongs: state.belongs.clone(),
            holder: state.holder.clone(),
            is_kept: state.is_kept,
        }
    }

    /// Learns a row of a checkpoint.
    pub(crate) fn remember(&self, known: Known) {
        let mut state = self.state();
        state.known = known.numbers.clone();
        state.durable = known.numbers;
        (state.told, state.told_from) = (known.told, known.told_from);
        state.last_seen = known.seen;
        state.home = known.home.map(|(lane, _)| lane);
        state.home_position = known.home.map_or(0, |(_, position)| position);
        state.set_belongs(known.belongs);
        (state.holder, state.is_kept) = (known.holder, known.is_kept);
    }

    /// Learns a batch that is in a lane, before `position`. The home is the lane of the highest number. `told` says that the client itself
    /// sent it.
    pub fn recover(&self, settled: Span, (lane, position): (u32, u64), told: bool, now_seconds: u64) {
        let mut state = self.state();
        if settled.last >= state.known.highest() {
            (state.home, state.home_position) = (Some(lane), position);
        }
        state.known.insert(settled);
        state.durable.insert(settled);
        state.last_seen = now_seconds;
        if told {
            state.note_told(settled);
        }
    }

    /// Keeps the ranges within their limit, when the last batch is recovered.
    pub fn limit_ranges(&self) {
        let mut state = self.state();
        state.known.limit(RANGES_MAX);
        state.durable.limit(RANGES_MAX);
    }

    /// Whether somebody may append to the stream. The first name of a token with which a client comes has it from then on; another server
    /// passes on streams of any name. `is_guarded` says that a listener of this server asks for tokens. Returns whether the stream has got a
    /// name.
    pub(super) fn admit(&self, visitor: &Visitor<'_>, is_guarded: bool) -> Result<bool, NotAdmitted> {
        let mut state = self.state();
        let mut is_new = false;
        match (visitor.identity, &state.belongs) {
            (Some(_), _) if visitor.relays => {}
            (Some(shown), known) if known.is_foreign_to(shown) => return Err(NotAdmitted::Foreign),
            (Some(_), Belongs::To(_)) => {}
            (Some(shown), _) => {
                state.set_belongs(Belongs::To(Arc::clone(shown)));
                is_new = true;
            }
            (None, known) if is_guarded && !known.is_to_nobody() => return Err(NotAdmitted::WithoutToken),
            (None, _) => {}
        }
        if state.holder == Identity::Unknown {
            state.holder = visitor.holder();
        }
        state.is_kept |= visitor.is_kept;
        Ok(is_new)
    }

    /// Notes who sent the stream, unless that is known.
    pub(super) fn note_holder(&self, holder: Identity) {
        let mut state = self.state();
        if state.holder == Identity::Unknown {
            state.holder = holder;
        }
    }

    /// Notes to whom the stream belongs, as a lane says, unless that is known.
    pub(super) fn note_mark(&self, mark: NameMark) {
        let mut state = self.state();
        if mark != NameMark::NOBODY && state.belongs.is_to_nobody() {
            state.set_belongs(Belongs::ToMarked(mark));
        }
    }

    /// Makes connection `owner` at the worker of lane `lanes.here` the owner, unless the stream's home is elsewhere, or a connection of a
    /// higher `epoch` has said hello before. Returns the home.
    pub fn take_over(
        &self,
        owner: u64,
        epoch: u64,
        lanes: &Lanes<impl Fn(u32) -> u64, impl Fn(u32) -> LaneState>,
    ) -> Home {
        // Both under one lock: the previous owner must not append to the old home once the new home is chosen.
        let mut state = self.state();
        if state.is_outdated(epoch) {
            return Home::Outdated;
        }
        let home = state.find_home(lanes);
        if !matches!(home, Home::Elsewhere(_)) {
            state.owner = owner;
        }
        drop(state);
        // The previous owner may wait in `settled`.
        self.notify();
        home
    }

    /// Makes the home of a stream that has none of its own batches that of `other`, behind the unread batches there.
    pub fn follow_home(&self, other: &Stream) {
        let (home, position) = {
            let other = other.state();
            (other.home, other.home_position)
        };
        let mut state = self.state();
        let before = if state.home == home { state.home_position } else { 0 };
        (state.home, state.home_position) = (home, position.max(before));
    }

    /// Notes that a lane failed that had batches of this stream in memory.
    pub fn set_failed(&self) {
        self.state().has_failed = true;
        self.notify();
    }

    /// Waits until these numbers are on disk; `false` when a lane failed that had batches of the stream in memory.
    pub async fn durable_at(&self, records: Span) -> bool {
        self.wait_for(|| self.durable_now(records)).await
    }

    /// `durable_at` without waiting: returns `None` while the records are on their way to the disk.
    pub fn durable_now(&self, records: Span) -> Option<bool> {
        let state = self.state();
        let is_durable = state.durable.check(records) == Check::Known;
        (is_durable || state.has_failed).then_some(is_durable)
    }

    /// Waits until all that was appended is durable, or until connection `owner` no longer owns the stream: with a full disk,
    /// each new try of a client would otherwise leave a connection behind.
    pub async fn settled(&self, owner: u64) {
        self.wait_for(|| self.settled_now(owner, None).map(drop)).await;
    }

    /// Waits until a newer connection than `owner` owns the stream.
    pub async fn taken_over(&self, owner: u64) {
        self.wait_for(|| (!self.is_owned_by(owner)).then_some(())).await;
    }

    /// Wakes all tasks that wait for a change.
    fn notify(&self) {
        self.moved.notify_waiters();
    }

    /// Calls `check` after each change, until it returns something.
    async fn wait_for<T>(&self, check: impl Fn() -> Option<T>) -> T {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if let Some(found) = check() {
                return found;
            }
            moved.await;
        }
    }

    /// `settled` without waiting: returns `None` while a batch is on its way to the disk. `progress` is what the client said of itself.
    pub fn settled_now(&self, owner: u64, progress: Option<Progress>) -> Option<Settled> {
        let state = self.state();
        if state.owner != owner {
            return Some(Settled::TakenOver);
        }
        if state.is_durable() {
            let done = progress.map(|progress| progress.done);
            let (last, is_certain) = (state.resume_after(done), state.knows_what_was_told(done));
            return Some(Settled::Until { last, highest: state.durable.highest(), is_certain });
        }
        state.has_failed.then_some(Settled::Never)
    }
}

/// What a lane does with more batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneState {
    /// The lane appends them.
    Open,
    /// The lane has no worker in this run. Every sink reads the lane to its end before the new batches of other lanes
    /// ([`bbq_spool::ReadOrder`]).
    Unwritten,
    /// The lane failed, and refuses them.
    Failed,
}

impl LaneState {
    /// Of a lane by its number; `lanes` are those that have a worker.
    pub fn of(lanes: &[Lane], lane: u32) -> LaneState {
        match lanes.get(lane as usize) {
            None => LaneState::Unwritten,
            Some(lane) if lane.failure().is_some() => LaneState::Failed,
            Some(_) => LaneState::Open,
        }
    }
}

/// Where a stream's batches go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// To the lane of the worker that asked.
    Here,
    /// To this lane, where earlier batches are unread.
    Elsewhere(u32),
    /// To no lane: the client has a newer connection. A stuck worker reads some hellos late.
    Outdated,
    /// To the lane of the worker that asked. Earlier batches are unread in this lane, which takes no more batches.
    Lost(u32),
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The batch is in a group of the lane.
    New {
        /// The group.
        group: u64,
        /// How many numbers before the batch are not known and may still come.
        missing: u64,
        /// A lane that failed with earlier messages of the stream unread, if there is one.
        order_lost: Option<u32>,
    },
    /// All records of the batch are known.
    Known {
        /// Whether all are on disk. If not, they are in the same lane, in a group that is not later than its last one.
        is_durable: bool,
    },
    /// Some records are known, and nothing was stored. The first that are not have these numbers.
    Partly(Span),
    /// The lane has no room for it now.
    Full,
}

/// Why a batch was not appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAppended {
    /// A newer connection owns the stream.
    TakenOver,
    /// Earlier batches are in another lane, unread or not durable yet: in this one, if that is known. The sender comes again.
    Elsewhere(Option<u32>),
    /// Numbers of a request are skipped.
    Gap {
        /// The last number of those that are known from the first on.
        known: u64,
    },
    /// It cannot be told whether the records are known.
    Unsure {
        /// Of which numbers of the stream this is so.
        numbers: Span,
    },
    /// The lane takes no more batches, or an earlier one failed with batches of the stream.
    Failed(String),
}

/// How waiting for a stream to be durable ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Everything that was appended is on disk.
    Until {
        /// The client goes on after this number.
        last: u64,
        /// The highest number that is known.
        highest: u64,
        /// Whether the table knows what the client itself was told up to where the client says it is. What links have brought says nothing
        /// of that, and neither do higher numbers, which the client may have sent since the table forgot the stream.
        is_certain: bool,
    },
    /// A lane failed, so the outcome is unknown.
    Never,
    /// A newer connection owns the stream.
    TakenOver,
}

#[cfg(test)]
mod tests;
