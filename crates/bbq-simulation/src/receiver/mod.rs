//! The destination of a sink that makes requests. It outlives the server, and does everything that a real one may: it refuses messages, is
//! busy, slow or silent, loses connections, and takes a request of which the sink hears nothing.
//!
//! ```text
//! bbq-sink: driver -> policy -> Exchange (`exchange`) -> Receiver: a mood, and what is in the request, say what becomes of it
//! ```
//!
//! The policy is the real one. Its clock is the sink's, which the simulation steps.
//!
//! Invariant: what a request does to the random numbers is decided when it comes, as tasks may end in any order.

mod check;
mod exchange;
mod mood;
mod options;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bbq_sink::SteppedClock;
use bbq_wire::StreamId;

use crate::bug::Bug;
use crate::random::Random;
use crate::record::Record;
pub(crate) use check::Found;
use mood::Mood;
pub(crate) use options::ReceiverOptions;

/// A message, by its stream, its number and its contents.
pub(crate) type Key = (StreamId, u64, Record);

/// At first, a receiver that begins wrong is in that mood for at most so many times the longest time of others.
const WRONG_TIMES_MAX: u32 = 4;

/// See the module.
pub(crate) struct Receiver {
    options: ReceiverOptions,
    bug: Option<Bug>,
    clock: Arc<SteppedClock>,
    state: Mutex<State>,
}

struct State {
    random: Random,
    mood: Mood,
    mood_until: Duration,
    /// All faults have ended.
    is_healed: bool,
    /// It takes everything.
    is_cured: bool,
    /// The sink's clock, and how much further it is than the server's.
    now: Duration,
    ahead: Duration,
    /// The number of the last request.
    requests: u64,
    /// Requests that nobody waits for, and that it takes next.
    late: BTreeMap<u64, Vec<Key>>,
    /// What it has taken, and in which order it took each first.
    taken: BTreeSet<Key>,
    order: Vec<Key>,
    /// What the sink knows that it has taken, since the sink was last drained.
    answered: BTreeSet<Key>,
    /// What the sink has committed: it is never sent again, unless it is a dead letter.
    settled: BTreeSet<Key>,
    /// How often a message was refused on its own, so that it may have become a dead letter.
    refusals: BTreeMap<Key, u64>,
    /// How often dead letters of the message were delivered and committed.
    resent: BTreeMap<Key, u64>,
    /// How often an operator has made dead letters of messages.
    skips: u64,
    /// Dead letters are being sent.
    is_resending: bool,
    /// It has taken something, or a request without a message that decides.
    has_seemed_well: bool,
    /// How often a sink was opened, at all and in this mood.
    opens: u64,
    opens_in_mood: u64,
    /// It took a request without a message since a sink was opened.
    took_empty: bool,
    /// What it refused on its own in this mood.
    refused_in_mood: BTreeSet<Key>,
    /// Messages of which the receiver said only how many it rejects. They are counted, but nobody knows which: after a kill, as many may count
    /// as delivered. Those that were dead letters are counted for the operator alone.
    given_up: BTreeSet<Key>,
    /// The first broken promise that it has seen.
    wrong: Option<String>,
    /// What has happened, if a person wants to read it.
    events: Option<Vec<String>>,
}

impl Receiver {
    pub(crate) fn new(options: ReceiverOptions, bug: Option<Bug>, mut random: Random) -> Receiver {
        let (mood, longest) = match options.begins_wrong {
            true => (Mood::RefusesAll { takes_empty: false }, options.mood_max * WRONG_TIMES_MAX),
            false => (Mood::Well, options.mood_max),
        };
        let state = State {
            mood,
            mood_until: some_time(longest, &mut random),
            random,
            is_healed: false,
            is_cured: false,
            now: Duration::ZERO,
            ahead: Duration::ZERO,
            requests: 0,
            late: BTreeMap::new(),
            taken: BTreeSet::new(),
            order: Vec::new(),
            answered: BTreeSet::new(),
            settled: BTreeSet::new(),
            refusals: BTreeMap::new(),
            resent: BTreeMap::new(),
            skips: 0,
            is_resending: false,
            has_seemed_well: false,
            opens: 0,
            opens_in_mood: 0,
            took_empty: false,
            refused_in_mood: BTreeSet::new(),
            given_up: BTreeSet::new(),
            wrong: None,
            events: None,
        };
        Receiver { options, bug, clock: Arc::default(), state: Mutex::new(state) }
    }

    pub(crate) fn options(&self) -> ReceiverOptions {
        self.options
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sink's time when the server's clock shows this.
    pub(crate) fn now(&self, server: Duration) -> Duration {
        let mut state = self.state();
        state.now = state.now.max(server * self.options.clock_rate + state.ahead);
        self.clock.set(state.now);
        state.look(&self.options);
        state.now
    }

    /// Time passes for the sink alone.
    pub(crate) fn pass(&self, time: Duration) {
        let mut state = self.state();
        (state.ahead, state.now) = (state.ahead + time, state.now + time);
        self.clock.set(state.now);
        state.look(&self.options);
    }

    /// The sink's time.
    pub(crate) fn present(&self) -> Duration {
        self.state().now
    }

    /// All that the sink was told is committed.
    pub(crate) fn settle(&self) {
        let mut state = self.state();
        let answered = std::mem::take(&mut state.answered);
        state.settled.extend(answered);
    }

    /// The process of the sink has ended: what it was told may be lost.
    pub(crate) fn lose_sink(&self) {
        let mut state = self.state();
        state.answered.clear();
        state.is_resending = false;
    }

    /// An operator makes dead letters of messages.
    pub(crate) fn skip(&self) {
        self.state().skips += 1;
    }

    /// Dead letters are sent from here on.
    pub(crate) fn begin_resend(&self) {
        let mut state = self.state();
        state.answered.clear();
        state.is_resending = true;
    }

    /// No more dead letters are sent. Those that were delivered are committed if it `is_committed`.
    pub(crate) fn end_resend(&self, is_committed: bool) {
        let mut state = self.state();
        let answered = std::mem::take(&mut state.answered);
        (state.is_resending, state.took_empty) = (false, false);
        // The sink goes on with what it knew before.
        state.opens_in_mood += 1;
        if is_committed {
            answered.into_iter().for_each(|key| *state.resent.entry(key).or_default() += 1);
        }
    }

    /// From here on it is well, and takes what it has not taken of requests that nobody waits for.
    pub(crate) fn heal(&self) {
        let mut state = self.state();
        state.is_healed = true;
        state.enter(Mood::Well);
        state.take_late();
    }

    /// From here on it takes every message.
    pub(crate) fn cure(&self) {
        self.state().is_cured = true;
    }

    /// What has happened since the last call.
    pub(crate) fn events(&self) -> Vec<String> {
        self.state().events.replace(Vec::new()).unwrap_or_default()
    }

    /// The first broken promise that it has seen.
    pub(crate) fn wrong(&self) -> Option<String> {
        self.state().wrong.clone()
    }

    pub(crate) fn describe(&self) -> String {
        let state = self.state();
        format!(
            "{:?} at {:?}, {} taken, {} refused",
            state.mood,
            state.now,
            state.taken.len(),
            state.refusals.len()
        )
    }

    /// Whether it never takes this message.
    fn is_poison(&self, record: &Record) -> bool {
        let mixed = (record.number * 31 + record.client as u64 + 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        self.options.poison_one_in.is_some_and(|one_in| mixed.is_multiple_of(one_in))
    }
}

impl State {
    /// Looks whether the mood is over.
    fn look(&mut self, options: &ReceiverOptions) {
        if !self.is_healed && self.now >= self.mood_until {
            self.mood_until = self.now + some_time(options.mood_max, &mut self.random);
            let mood = Mood::draw(options, &mut self.random);
            self.enter(mood);
        }
    }

    fn note(&mut self, event: impl FnOnce() -> String) {
        if let Some(events) = &mut self.events {
            events.push(event());
        }
    }

    fn enter(&mut self, mood: Mood) {
        self.note(|| format!("is {mood:?}"));
        self.mood = mood;
        self.opens_in_mood = 0;
        self.refused_in_mood.clear();
    }

    fn take(&mut self, key: Key) {
        if self.taken.insert(key) {
            self.order.push(key);
        }
    }

    fn take_late(&mut self) {
        for (number, keys) in std::mem::take(&mut self.late) {
            self.note(|| format!("takes the rest of request {number}, for which nobody waits"));
            keys.into_iter().for_each(|key| self.take(key));
        }
    }

    fn blame(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }
}

fn some_time(most: Duration, random: &mut Random) -> Duration {
    Duration::from_micros(random.below(u64::try_from(most.as_micros()).unwrap_or(u64::MAX)) + 1)
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(f)
    }
}
