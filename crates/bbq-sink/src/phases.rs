//! How the sinks of a start begin, hold and end: the phase that control sets, and the stage of each sink.
//!
//! ```text
//! Gated -> Opening -> Working -> Draining -> Over       a stop: finish, then give up
//!    \        \          ^  \
//!     \        \         |   v
//!      +--> Over        Holding -> Leaving              a pause: commit and hold, then end
//! ```
//!
//! A pause asks the sinks first, before anything else ends. If a sink does not come to a hold in time, all sinks go on and the
//! pause is called off. So a sink's thread is never left behind while another takes its place.
//!
//! A sink that an operator has paused holds by itself while the others work, and so does one that has an order, until
//! it has done it.
//!
//! Invariant: the cursor of a sink that holds covers everything that the sink has written, unless its output cannot be written.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{Order, Orders};

/// How often a sink that is paused before its output is open says again, while the server starts, that the start need not wait for it.
const PAUSED_LOOK: Duration = Duration::from_secs(1);

/// The phase that control sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Some threads of the start do not exist yet: touch nothing.
    Gated,
    /// Open the outputs, and write nothing.
    Opening,
    /// Deliver.
    Working,
    /// Commit, and wait for the next phase.
    Holding,
    /// Nothing new comes; deliver what is there.
    Draining,
    /// End; the next start, or a successor, goes on from the last commit.
    Leaving,
    /// End at once: there is no more time.
    Over,
}

/// The stage of a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// The sink waits, or is in a system call that opens its output.
    Opening,
    /// The output is open, or opening is tried again and again, which the status shows.
    Settled,
    /// The output cannot be opened as it is configured.
    Refused(String),
    Held,
    /// The thread has ended.
    Ended,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    stages: Vec<Stage>,
    orders: Vec<Orders>,
    /// How often control has asked for outputs to be opened again.
    reopens: u64,
}

impl State {
    fn is_kept_paused(&self, index: usize) -> bool {
        let orders = &self.orders[index];
        self.phase == Phase::Working && orders.is_paused && !orders.has_order()
    }
}

/// The sinks are to end now; the last commit stands.
#[derive(Debug)]
pub struct Interrupted;

/// Control's side.
#[derive(Debug)]
pub struct Lifecycle {
    state: Mutex<State>,
    moved: Condvar,
}

impl Lifecycle {
    /// All sinks are gated.
    pub fn new(sinks: usize) -> Arc<Lifecycle> {
        let orders = std::iter::repeat_with(Orders::default).take(sinks).collect();
        let state = State { phase: Phase::Gated, stages: vec![Stage::Opening; sinks], orders, reopens: 0 };
        Arc::new(Lifecycle { state: Mutex::new(state), moved: Condvar::new() })
    }

    /// One sink's side.
    pub fn of_sink(self: &Arc<Self>, index: usize) -> SinkLifecycle {
        SinkLifecycle { all: Arc::clone(self), index }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the phase of all sinks, except that [`Lifecycle::hold`] begins [`Phase::Holding`].
    pub fn enter(&self, phase: Phase) {
        self.locked().phase = phase;
        self.moved.notify_all();
    }

    /// Lets the sinks open their outputs, once every thread exists. Waits until all have tried, for at most `patience`.
    ///
    /// # Errors
    /// Which sink cannot be opened as it is configured, and why.
    pub fn open(&self, patience: Duration) -> Result<(), (usize, String)> {
        self.enter(Phase::Opening);
        let opens = |state: &mut State| {
            let is_refused = |stage: &Stage| matches!(stage, Stage::Refused(_) | Stage::Ended);
            state.stages.contains(&Stage::Opening) && !state.stages.iter().any(is_refused)
        };
        let waited = self.moved.wait_timeout_while(self.locked(), patience, opens);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        for (index, stage) in state.stages.iter_mut().enumerate() {
            match stage {
                Stage::Refused(why) => return Err((index, why.clone())),
                Stage::Ended => return Err((index, "its thread ended".to_owned())),
                // From here on the sink tries again by itself.
                Stage::Opening => *stage = Stage::Settled,
                Stage::Settled | Stage::Held => {}
            }
        }
        Ok(())
    }

    /// Asks the sinks to look where the paths of their outputs lead now.
    pub fn reopen(&self) {
        let mut state = self.locked();
        state.reopens = state.reopens.wrapping_add(1);
        drop(state);
        self.moved.notify_all();
    }

    /// Pauses a sink, or lets it go on.
    pub fn pause_sink(&self, index: usize, is_paused: bool) {
        self.locked().orders[index].pause(is_paused);
        self.moved.notify_all();
    }

    /// Whether an operator has paused the sink.
    pub fn is_sink_paused(&self, index: usize) -> bool {
        self.locked().orders[index].is_paused
    }

    /// Gives a sink an order, unless it has one or has ended.
    pub fn order(&self, index: usize, order: Order) -> Result<(), Order> {
        let mut state = self.locked();
        if state.stages[index] == Stage::Ended {
            return Err(order);
        }
        state.orders[index].give(order)?;
        drop(state);
        self.moved.notify_all();
        Ok(())
    }

    /// Asks all sinks to commit and to wait.
    pub fn hold(&self) {
        let mut state = self.locked();
        for stage in state.stages.iter_mut().filter(|stage| **stage == Stage::Held) {
            // A stage of an earlier hold: the sink sets it again.
            *stage = Stage::Settled;
        }
        state.phase = Phase::Holding;
        drop(state);
        self.moved.notify_all();
    }

    /// The first sink that does not hold, if any.
    pub fn first_not_held(&self) -> Option<usize> {
        self.locked().stages.iter().position(|stage| *stage != Stage::Held)
    }
}

/// One sink's side. Dropped with its thread.
#[derive(Debug)]
pub struct SinkLifecycle {
    all: Arc<Lifecycle>,
    index: usize,
}

impl Drop for SinkLifecycle {
    fn drop(&mut self) {
        let mut state = self.all.locked();
        if !matches!(state.stages[self.index], Stage::Refused(_)) {
            state.stages[self.index] = Stage::Ended;
        }
        drop(state);
        self.all.moved.notify_all();
    }
}

impl SinkLifecycle {
    fn wait_while(&self, waits: impl Fn(Phase) -> bool) -> Result<(), Interrupted> {
        let waited = self.all.moved.wait_while(self.all.locked(), |state| waits(state.phase));
        match waited.unwrap_or_else(PoisonError::into_inner).phase {
            Phase::Over | Phase::Leaving => Err(Interrupted),
            _ => Ok(()),
        }
    }

    /// Waits until every thread of the start exists.
    pub fn enter(&self) -> Result<(), Interrupted> {
        self.wait_while(|phase| phase == Phase::Gated)
    }

    /// Notes that the output is open, or waited for. Nothing is written before the workers begin.
    pub fn settle(&self) {
        self.all.locked().stages[self.index] = Stage::Settled;
        self.all.moved.notify_all();
    }

    /// Waits while an operator has paused the sink and wants nothing else of it. A stop waits for nobody who is paused.
    pub(crate) fn wait_resumed(&self) -> Result<(), Interrupted> {
        loop {
            self.hold()?;
            let state = self.all.locked();
            let orders = &state.orders[self.index];
            if !orders.is_paused || orders.has_order() {
                return Ok(());
            }
            if state.phase == Phase::Draining {
                return Err(Interrupted);
            }
            drop(state);
            self.settle();
            self.wait_unless(PAUSED_LOOK, |phase| phase != Phase::Opening);
        }
    }

    /// Waits until the start is complete.
    pub(crate) fn wait_begin(&self) -> Result<(), Interrupted> {
        self.wait_while(|phase| phase == Phase::Opening)
    }

    /// Notes that the output cannot be opened as configured. Returns `false` if the start no longer waits: then the sink tries
    /// again by itself.
    pub fn refuse(&self, why: String) -> bool {
        let mut state = self.all.locked();
        let is_asked = state.phase == Phase::Opening && state.stages[self.index] == Stage::Opening;
        if is_asked {
            state.stages[self.index] = Stage::Refused(why);
        }
        drop(state);
        self.all.moved.notify_all();
        is_asked
    }

    /// Changes when control asks for outputs to be opened again.
    pub(crate) fn reopens(&self) -> u64 {
        self.all.locked().reopens
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.all.locked().phase == Phase::Draining
    }

    /// Takes over from the last start whether an operator has paused the sink.
    pub(crate) fn begin_paused(&self, is_paused: bool) {
        self.all.locked().orders[self.index].is_paused = is_paused;
    }

    /// Whether an operator has paused the sink.
    pub fn is_paused(&self) -> bool {
        self.all.locked().orders[self.index].is_paused
    }

    /// Whether the sink is to hold, by its own orders or as all do.
    pub(crate) fn must_hold(&self) -> bool {
        let state = self.all.locked();
        let orders = &state.orders[self.index];
        state.phase == Phase::Holding
            || orders.is_paused
            || (state.phase == Phase::Working && orders.has_order())
    }

    /// Whether the sinks work: nobody waits for this one to hold or to end.
    pub(crate) fn is_working(&self) -> bool {
        self.all.locked().phase == Phase::Working
    }

    /// The order of an operator, for a sink that holds.
    pub(crate) fn take_order(&self) -> Option<Order> {
        let mut state = self.all.locked();
        if state.phase == Phase::Working { state.orders[self.index].take() } else { None }
    }

    /// Checks whether to end at once.
    pub fn check(&self) -> Result<(), Interrupted> {
        self.wait_while(|_| false)
    }

    /// Holds for as long as control asks for it, or while the sink is paused and has no order. To be called right after a commit.
    pub fn hold(&self) -> Result<(), Interrupted> {
        let mut state = self.all.locked();
        while state.phase == Phase::Holding || state.is_kept_paused(self.index) {
            if state.phase == Phase::Holding && state.stages[self.index] != Stage::Held {
                state.stages[self.index] = Stage::Held;
                self.all.moved.notify_all();
            }
            state = self.all.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.check()
    }

    /// Waits before the output is tried again, and holds meanwhile if control asks for it.
    pub fn pause(&self, pause: Duration) -> Result<(), Interrupted> {
        let until = Instant::now() + pause;
        loop {
            self.hold()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.wait_unless(left, |phase| matches!(phase, Phase::Holding | Phase::Leaving | Phase::Over));
        }
    }

    /// Waits before the output is tried again, or until control asks for a hold or the end. A sink that does not drain yet also goes on when
    /// the server begins to: a destination that is back gets the rest at once.
    pub(crate) fn pause_until_hold(&self, pause: Duration, is_draining: bool) {
        self.wait_unless(pause, |phase| match phase {
            Phase::Holding | Phase::Leaving | Phase::Over => true,
            Phase::Draining => !is_draining,
            _ => false,
        });
    }

    /// Waits before the output is tried again. For a sink that could not end now: what control asks for has to wait, or is called
    /// off.
    pub(crate) fn pause_without_hold(&self, pause: Duration) -> Result<(), Interrupted> {
        self.wait_unless(pause, |phase| matches!(phase, Phase::Leaving | Phase::Over));
        self.check()
    }

    /// Waits for so long, or until control sets such a phase or asks for outputs to be opened again, or an operator has an order.
    fn wait_unless(&self, patience: Duration, ends: impl Fn(Phase) -> bool) {
        let state = self.all.locked();
        let (reopens, changes) = (state.reopens, state.orders[self.index].changes);
        let waits = |state: &mut State| {
            let is_told = state.reopens != reopens || state.orders[self.index].changes != changes;
            !is_told && !ends(state.phase)
        };
        let _moved = self.all.moved.wait_timeout_while(state, patience, waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn nothing_is_touched_by_a_start_that_is_given_up() {
        let all = Lifecycle::new(1);
        let sink = all.of_sink(0);
        all.enter(Phase::Over);
        assert!(sink.enter().is_err());
    }

    #[test]
    fn a_sink_that_is_refused_in_time_fails_the_start_and_a_late_one_is_told_to_try_again() {
        let all = Lifecycle::new(1);
        let sink = all.of_sink(0);
        assert_eq!(all.open(SHORT), Ok(()), "a system call may take its time");
        assert!(!sink.refuse("too late".to_owned()));
        all.enter(Phase::Working);
        assert!(!sink.refuse("later still".to_owned()));
        let all = Lifecycle::new(2);
        let (one, _other) = (all.of_sink(0), all.of_sink(1));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                one.enter().unwrap();
                assert!(one.refuse("no such directory".to_owned()));
            });
            assert_eq!(all.open(LONG), Err((0, "no such directory".to_owned())));
        });
    }

    #[test]
    fn a_thread_that_ends_while_it_opens_fails_the_start() {
        let all = Lifecycle::new(1);
        drop(all.of_sink(0));
        assert!(all.open(LONG).is_err());
    }

    #[test]
    fn a_sink_that_could_not_end_does_not_hold_while_it_pauses() {
        let all = Lifecycle::new(1);
        let sink = all.of_sink(0);
        all.hold();
        assert!(sink.pause_without_hold(SHORT).is_ok());
        assert_eq!(all.first_not_held(), Some(0));
        all.enter(Phase::Over);
        assert!(sink.pause_without_hold(LONG).is_err());
    }

    #[test]
    fn a_sink_that_pauses_goes_on_when_the_server_drains() {
        let all = Lifecycle::new(1);
        let sink = all.of_sink(0);
        all.enter(Phase::Working);
        std::thread::scope(|scope| {
            // Whether the pause or the stop comes first.
            scope.spawn(|| sink.pause_until_hold(LONG, false));
            all.enter(Phase::Draining);
        });
        // From then on a pause is one.
        let begun = Instant::now();
        sink.pause_until_hold(SHORT, true);
        assert!(begun.elapsed() >= SHORT);
    }

    #[test]
    fn a_sink_that_pauses_holds_and_goes_on_or_leaves() {
        let all = Lifecycle::new(1);
        all.enter(Phase::Working);
        std::thread::scope(|scope| {
            let sink = all.of_sink(0);
            let paused = scope.spawn(move || {
                let went_on = sink.pause(LONG);
                went_on.is_err()
            });
            for _again in 0..2 {
                all.hold();
                while all.first_not_held().is_some() {
                    std::thread::yield_now();
                }
                all.enter(Phase::Working);
            }
            all.hold();
            all.enter(Phase::Leaving);
            assert!(paused.join().unwrap());
        });
    }
}
