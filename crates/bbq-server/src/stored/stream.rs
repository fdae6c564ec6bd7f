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

use bbq_spool::{Lane, LaneError};
use bbq_wire::ranges::RANGES_MAX;
use bbq_wire::{BatchHeader, Check, Progress, Ranges, Span, StreamId};
use tokio::sync::Notify;

use super::checkpoint::Known;
use super::visitor::{NotAdmitted, Visitor};
use crate::access::Identity;

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
    /// The connection that owns the stream: the newest.
    owner: u64,
    /// The lane of its batches.
    home: Option<u32>,
    /// A position of the home lane that is not before the last durable batch.
    home_position: u64,
    /// The highest epoch of all hellos; 0 before the first hello with an epoch.
    epoch: u64,
    /// The name of the token with which it was begun; `None` while no listener has asked its client for one.
    identity: Option<Arc<str>>,
    /// Who sent it, for the shares of the table.
    holder: Identity,
    /// Its client goes on with it after a restart.
    is_kept: bool,
    /// Unix seconds of the last batch.
    last_seen: u64,
    /// A lane failed that had batches of this stream in memory.
    has_failed: bool,
    /// The stream has left this lane, which failed with unread batches of it; nothing was appended since, so nobody was told.
    order_lost: Option<u32>,
}

/// By which way a batch comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Over the connection with this number, which has to own the stream.
    Session(u64),
    /// From another server, which needs no connection that owns the stream. Where earlier batches are unread in another lane, the flag
    /// says whether to append all the same.
    Relay {
        /// See above.
        gives_up_order: bool,
    },
    /// In a request. Numbers may not be skipped, and no connection owns the stream afterwards.
    Request,
}

/// The lanes, as seen by the worker of one of them.
pub(crate) struct Lanes<P, S> {
    /// The worker's own lane.
    pub(crate) here: u32,
    /// Returns the position up to which every sink has committed a lane.
    pub(crate) passed: P,
    /// Returns what a lane does with more batches.
    pub(crate) state: S,
}

impl<P: Fn(u32) -> u64, S: Fn(u32) -> LaneState> Lanes<P, S> {
    pub(crate) fn new(here: u32, passed: P, state: S) -> Lanes<P, S> {
        Lanes { here, passed, state }
    }
}

/// The numbers of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    /// Those of its records.
    pub(crate) records: Span,
    /// How many numbers directly before them will never come.
    pub(crate) given_up: u64,
}

impl Numbers {
    /// Those of a batch that gives up `given_up` numbers.
    #[inline]
    pub(crate) fn of(header: &BatchHeader, given_up: u64) -> Numbers {
        let records = Span { first: header.first_sequence, last: header.last_sequence() };
        Numbers { records, given_up }
    }

    /// All numbers that the batch settles.
    pub(crate) fn settled(self) -> Span {
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
    /// home moves.
    fn find_home(&mut self, lanes: &Lanes<impl Fn(u32) -> u64, impl Fn(u32) -> LaneState>) -> Home {
        let here = lanes.here;
        let home = match self.home {
            None => Home::Here,
            Some(home) if home == here => Home::Here,
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
        };
        if !matches!(home, Home::Elsewhere(_)) {
            self.move_home(here);
        }
        home
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
        &mut self,
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
            // Another server relays the same stream, and its batches are in another lane.
            Way::Session(_) => Err(NotAppended::Elsewhere(self.home)),
            // The batches of two lanes are never on their way at a time.
            _ if self.home.is_some_and(|home| home != lanes.here) && !self.is_durable() => {
                Err(NotAppended::Elsewhere(self.home))
            }
            Way::Relay { .. } | Way::Request => match self.find_home(lanes) {
                Home::Elsewhere(_) if way == (Way::Relay { gives_up_order: true }) => Ok(None),
                Home::Elsewhere(home) => Err(NotAppended::Elsewhere(Some(home))),
                Home::Lost(home) => Ok(Some(home)),
                Home::Here | Home::Outdated => Ok(None),
            },
        }
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
    /// by [`super::streams::Streams::admit`], and has checked that the batch is complete and within the limits.
    ///
    /// # Errors
    /// Why the batch is neither stored nor known.
    pub(crate) fn append(
        &self,
        way: Way,
        lanes: &Lanes<impl Fn(u32) -> u64, impl Fn(u32) -> LaneState>,
        numbers: Numbers,
        put: impl FnOnce() -> Result<u64, LaneError>,
    ) -> Result<Appended, NotAppended> {
        let mut state = self.state();
        if let Way::Session(owner) = way
            && state.owner != owner
        {
            return Err(NotAppended::TakenOver);
        }
        // Before the numbers are looked at, also where all are known: behind them come those whose order is to be kept.
        let order_lost = state.place(way, lanes)?;
        state.order_lost = order_lost.or(state.order_lost);
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
                    state.told = state.told.max(records.last);
                }
                let is_durable = state.durable.check(records) == Check::Known;
                return Ok(Appended::Known { is_durable });
            }
            Check::Partly(unknown) => return Ok(Appended::Partly(unknown)),
            Check::Unsure => return Err(NotAppended::Unsure),
        }
        let before = records.first - 1;
        if way == Way::Request && before > 0 && state.known.end_of_run(before).is_none() {
            return Err(NotAppended::Gap { known: state.known.mark() });
        }
        let group = match put() {
            Ok(group) => group,
            Err(LaneError::Full) => return Ok(Appended::Full),
            Err(error) => return Err(NotAppended::Failed(error.to_string())),
        };
        state.move_home(lanes.here);
        let order_lost = state.order_lost.take();
        let missing = settled.first - 1 - state.known.highest_up_to(settled.first - 1);
        state.known.insert(settled);
        state.known.limit(RANGES_MAX);
        state.pending += 1;
        let had_owner = match way {
            Way::Session(_) => {
                state.told = state.told.max(records.last);
                false
            }
            Way::Relay { .. } => false,
            Way::Request => {
                state.told = state.told.max(records.last);
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
    pub(crate) fn set_durable(&self, settled: Span, position: u64, now_seconds: u64) {
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
    pub(crate) fn link_number(&self, owner: u64) -> Option<u64> {
        let state = self.state();
        (state.owner == owner).then(|| state.known.highest())
    }

    /// Notes that a link has brought its next batch, which waits for the disk if `waits`.
    pub(crate) fn add_to_link(&self, number: u64, waits: bool) {
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
    pub(crate) fn is_owned_by(&self, owner: u64) -> bool {
        self.state().owner == owner
    }

    /// What a checkpoint remembers of it.
    pub(crate) fn known(&self, id: StreamId) -> Known {
        let state = self.state();
        Known {
            id,
            numbers: state.durable.clone(),
            told: state.told,
            seen: state.last_seen,
            home: state.home.map(|lane| (lane, state.home_position)),
            identity: state.identity.clone(),
            holder: state.holder.clone(),
            is_kept: state.is_kept,
        }
    }

    /// Learns a row of a checkpoint.
    pub(crate) fn remember(&self, known: Known) {
        let mut state = self.state();
        state.known = known.numbers.clone();
        state.durable = known.numbers;
        state.told = known.told;
        state.last_seen = known.seen;
        state.home = known.home.map(|(lane, _)| lane);
        state.home_position = known.home.map_or(0, |(_, position)| position);
        (state.identity, state.holder, state.is_kept) = (known.identity, known.holder, known.is_kept);
    }

    /// Learns a batch that is in a lane, before `position`. The home is the lane of the highest number. `told` says that the client itself
    /// sent it.
    pub(crate) fn recover(&self, settled: Span, (lane, position): (u32, u64), told: bool, now_seconds: u64) {
        let mut state = self.state();
        if settled.last >= state.known.highest() {
            (state.home, state.home_position) = (Some(lane), position);
        }
        state.known.insert(settled);
        state.durable.insert(settled);
        state.last_seen = now_seconds;
        if told {
            state.told = state.told.max(settled.last);
        }
    }

    /// Keeps the ranges within their limit, when the last batch is recovered.
    pub(crate) fn limit_ranges(&self) {
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
        match (visitor.identity, &state.identity) {
            (Some(shown), None) if !visitor.relays => {
                (state.identity, is_new) = (Some(Arc::clone(shown)), true);
            }
            (Some(shown), Some(known)) if !visitor.relays && shown != known => {
                return Err(NotAdmitted::Foreign);
            }
            (None, Some(_)) if is_guarded => return Err(NotAdmitted::WithoutToken),
            _ => {}
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

    /// Makes connection `owner` at the worker of lane `lanes.here` the owner, unless the stream's home is elsewhere, or a connection of a
    /// higher `epoch` has said hello before. Returns the home.
    pub(crate) fn take_over(
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
    pub(crate) fn follow_home(&self, other: &Stream) {
        let (home, position) = {
            let other = other.state();
            (other.home, other.home_position)
        };
        let mut state = self.state();
        state.home = home;
        state.home_position = state.home_position.max(position);
    }

    /// Notes that a lane failed that had batches of this stream in memory.
    pub(crate) fn set_failed(&self) {
        self.state().has_failed = true;
        self.notify();
    }

    /// Waits until these numbers are on disk; `false` when a lane failed that had batches of the stream in memory.
    pub(crate) async fn durable_at(&self, records: Span) -> bool {
        self.wait_for(|| self.durable_now(records)).await
    }

    /// `durable_at` without waiting: returns `None` while the records are on their way to the disk.
    pub(crate) fn durable_now(&self, records: Span) -> Option<bool> {
        let state = self.state();
        let is_durable = state.durable.check(records) == Check::Known;
        (is_durable || state.has_failed).then_some(is_durable)
    }

    /// Waits until all that was appended is durable, or until connection `owner` no longer owns the stream: with a full disk,
    /// each new try of a client would otherwise leave a connection behind.
    pub(crate) async fn settled(&self, owner: u64) {
        self.wait_for(|| self.settled_now(owner, None).map(drop)).await;
    }

    /// Waits until a newer connection than `owner` owns the stream.
    pub(crate) async fn taken_over(&self, owner: u64) {
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
    pub(crate) fn settled_now(&self, owner: u64, progress: Option<Progress>) -> Option<Settled> {
        let state = self.state();
        if state.owner != owner {
            return Some(Settled::TakenOver);
        }
        if state.is_durable() {
            let last = state.resume_after(progress.map(|progress| progress.done));
            return Some(Settled::Until { last, highest: state.durable.highest() });
        }
        state.has_failed.then_some(Settled::Never)
    }
}

/// What a lane does with more batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneState {
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
    pub(crate) fn of(lanes: &[Lane], lane: u32) -> LaneState {
        match lanes.get(lane as usize) {
            None => LaneState::Unwritten,
            Some(lane) if lane.failure().is_some() => LaneState::Failed,
            Some(_) => LaneState::Open,
        }
    }
}

/// Where a stream's batches go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
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
pub(crate) enum Appended {
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
pub(crate) enum NotAppended {
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
    Unsure,
    /// The lane takes no more batches, or an earlier one failed with batches of the stream.
    Failed(String),
}

/// How waiting for a stream to be durable ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Everything that was appended is on disk.
    Until {
        /// The client goes on after this number.
        last: u64,
        /// The highest number that is known.
        highest: u64,
    },
    /// A lane failed, so the outcome is unknown.
    Never,
    /// A newer connection owns the stream.
    TakenOver,
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type ToPlace = fn(u32) -> u64;
    type ToState = fn(u32) -> LaneState;

    const UNREAD: ToPlace = |_| 0;
    const OPEN: ToState = |_| LaneState::Open;

    fn lanes(here: u32) -> Lanes<ToPlace, ToState> {
        Lanes::new(here, UNREAD, OPEN)
    }

    fn numbers(first: u64, last: u64) -> Numbers {
        Numbers { records: Span { first, last }, given_up: 0 }
    }

    fn append(stream: &Stream, way: Way, here: u32, first: u64, last: u64) -> Result<Appended, NotAppended> {
        stream.append(way, &lanes(here), numbers(first, last), || Ok(1))
    }

    fn added(missing: u64) -> Result<Appended, NotAppended> {
        Ok(Appended::New { group: 1, missing, order_lost: None })
    }

    const RELAY: Way = Way::Relay { gives_up_order: false };

    fn taken_over(stream: &Stream, owner: u64) {
        assert_eq!(stream.take_over(owner, 0, &lanes(0)), Home::Here);
    }

    #[test]
    fn what_comes_late_is_stored_by_every_way_and_what_comes_twice_by_none() {
        let stream = Stream::default();
        taken_over(&stream, 1);
        for way in [RELAY, Way::Session(1)] {
            let stream = Stream::default();
            taken_over(&stream, 1);
            assert_eq!(append(&stream, way, 0, 1001, 1100), added(1000));
            assert_eq!(append(&stream, way, 0, 1, 1000), added(0));
            assert_eq!(append(&stream, way, 0, 1, 1000), Ok(Appended::Known { is_durable: false }));
            stream.set_durable(Span { first: 1001, last: 1100 }, 1, 1);
            stream.set_durable(Span { first: 1, last: 1000 }, 1, 1);
            assert_eq!(append(&stream, way, 0, 500, 1100), Ok(Appended::Known { is_durable: true }));
            assert_eq!(
                append(&stream, way, 0, 1100, 1101),
                Ok(Appended::Partly(Span { first: 1101, last: 1101 }))
            );
        }
        // A client that numbers its requests skips none.
        assert_eq!(append(&stream, Way::Request, 0, 2, 3), Err(NotAppended::Gap { known: 0 }));
        assert_eq!(append(&stream, Way::Request, 0, 1, 3), added(0));
    }

    #[test]
    fn what_its_client_has_given_up_is_known() {
        let stream = Stream::default();
        taken_over(&stream, 1);
        let batch = Numbers { records: Span { first: 11, last: 20 }, given_up: 10 };
        assert_eq!(stream.append(Way::Session(1), &lanes(0), batch, || Ok(1)), added(0));
        assert_eq!(append(&stream, RELAY, 0, 1, 10), Ok(Appended::Known { is_durable: false }));
        stream.set_durable(batch.settled(), 1, 1);
        let progress = Some(Progress { done: 0, is_kept: false });
        assert_eq!(stream.settled_now(1, progress), Some(Settled::Until { last: 20, highest: 20 }));
    }

    #[test]
    fn the_welcome_asks_for_what_is_missing_here_and_for_nothing_else() {
        let stream = Stream::default();
        for (first, last) in [(1, 10), (21, 30), (41, 50)] {
            stream.recover(Span { first, last }, (0, 0), last == 30, 1);
        }
        taken_over(&stream, 1);
        let last = |done: Option<u64>| {
            let progress = done.map(|done| Progress { done, is_kept: false });
            let Some(Settled::Until { last, highest: 50 }) = stream.settled_now(1, progress) else {
                panic!()
            };
            last
        };
        assert_eq!(
            [0, 5, 10, 15, 20, 25, 30, 35, 40, 60].map(|done| last(Some(done))),
            [10, 10, 10, 10, 30, 30, 30, 30, 50, 50]
        );
        // A client that does not say where it is was told of 30.
        assert_eq!(last(None), 30);
    }

    #[test]
    fn after_a_lane_failed_with_batches_of_the_stream_nothing_is_taken_by_any_way() {
        let stream = Stream::default();
        taken_over(&stream, 1);
        assert_eq!(append(&stream, Way::Session(1), 0, 1, 10), added(0));
        stream.set_failed();
        for way in [Way::Session(1), RELAY, Way::Request] {
            for here in [0, 1] {
                assert!(matches!(append(&stream, way, here, 11, 20), Err(NotAppended::Failed(_))), "{way:?}");
                assert!(matches!(append(&stream, way, here, 1, 10), Err(NotAppended::Failed(_))), "{way:?}");
            }
        }
    }

    #[test]
    fn batches_of_two_lanes_are_never_on_their_way_at_a_time() {
        let stream = Stream::default();
        assert_eq!(append(&stream, RELAY, 0, 1, 10), added(0));
        let gives_up = Way::Relay { gives_up_order: true };
        for way in [RELAY, gives_up, Way::Request] {
            assert_eq!(append(&stream, way, 1, 11, 20), Err(NotAppended::Elsewhere(Some(0))), "{way:?}");
        }
        stream.set_durable(Span { first: 1, last: 10 }, 100, 1);
        assert_eq!(append(&stream, RELAY, 1, 11, 20), Err(NotAppended::Elsewhere(Some(0))), "it is unread");
        assert_eq!(append(&stream, gives_up, 1, 1, 10), Ok(Appended::Known { is_durable: true }));
        assert_eq!(append(&stream, gives_up, 1, 11, 20), added(0));
        assert_eq!(append(&stream, RELAY, 0, 21, 30), Err(NotAppended::Elsewhere(Some(1))));
    }

    #[test]
    fn a_stream_moves_when_all_of_it_was_passed_and_order_is_given_up_only_for_a_lane_that_takes_nothing() {
        let stream = Stream::default();
        taken_over(&stream, 1);
        assert_eq!(append(&stream, Way::Session(1), 0, 1, 5), added(0));
        let home =
            |here, passed: u64, state| stream.take_over(1, 0, &Lanes::new(here, |_| passed, |_| state));
        let (open, unwritten, failed) = (LaneState::Open, LaneState::Unwritten, LaneState::Failed);
        assert_eq!(home(1, u64::MAX, open), Home::Elsewhere(0), "it is not durable yet");
        stream.set_durable(Span { first: 1, last: 5 }, 100, 0);
        assert_eq!(home(1, 99, open), Home::Elsewhere(0));
        assert_eq!(home(0, 99, open), Home::Here);
        assert_eq!(home(1, 100, open), Home::Here, "every sink has committed it");
        assert_eq!(home(0, 0, open), Home::Here, "nothing of it is in lane 1");
        assert_eq!(append(&stream, Way::Session(1), 0, 6, 6), added(0));
        assert_eq!(home(1, 0, failed), Home::Lost(0));
        assert_eq!(home(2, 0, unwritten), Home::Here);
    }

    #[test]
    fn who_waits_for_the_disk_hears_that_a_newer_connection_has_the_stream() {
        let stream = Stream::default();
        taken_over(&stream, 1);
        assert_eq!(append(&stream, Way::Session(1), 0, 1, 5), added(0));
        let mut context = Context::from_waker(Waker::noop());
        let mut waits = pin!(stream.settled(1));
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
        taken_over(&stream, 2);
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(()));
        assert_eq!(stream.settled_now(1, None), Some(Settled::TakenOver));
        let mut waits = pin!(stream.settled(2));
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
        stream.set_durable(Span { first: 1, last: 5 }, 0, 0);
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(()));
    }

    #[test]
    fn a_request_takes_the_stream_from_its_connection() {
        let stream = Stream::default();
        taken_over(&stream, 1);
        assert_eq!(append(&stream, Way::Session(1), 0, 1, 3), added(0));
        assert_eq!(append(&stream, Way::Request, 0, 4, 4), added(0));
        assert_eq!(append(&stream, Way::Session(1), 0, 5, 5), Err(NotAppended::TakenOver));
        assert_eq!(append(&stream, Way::Request, 0, 5, 5), added(0));
    }

    #[test]
    fn a_hello_of_an_earlier_connection_does_not_take_the_stream_back() {
        let stream = Stream::default();
        let take = |(owner, epoch)| stream.take_over(owner, epoch, &lanes(0)) == Home::Outdated;
        // Of two equal epochs the newest connection owns the stream. A hello without an epoch always takes over.
        let hellos = [(1, 8), (2, 7), (3, 8), (4, 0), (5, 7), (6, u64::MAX), (7, 8)];
        assert_eq!(hellos.map(take), [false, true, false, false, true, false, true]);
        assert!(stream.is_owned_by(6));
    }
}
