//! The thread of a sink: opens the output, takes the driver's steps, and waits between them.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bbq_spec::own_files::{own_place, refusal, resolved};
use bbq_spec::unix_ns;
use bbq_spool::{Progress, Spool, SpoolError};
use bbq_stored::{Replica, Retention};
use tracing::{info, warn};

use super::driver::SinkDriver;
use super::interface::{Now, OpenError, Sink};
use super::ledger::{SinkLedger, is_full};
use super::opening::SinkOpening;
use super::orders::{Done, Order, Task};
use super::resend::{Meantime, Resender};
use super::spec::SinkSpec;
use super::step::{Goal, SinkStep};
use crate::phases::{Interrupted, SinkLifecycle};

/// First and longest pause before an output that could not be opened is tried again.
const OPEN_PAUSE_MIN: Duration = Duration::from_millis(50);
const OPEN_PAUSE_MAX: Duration = Duration::from_secs(1);
/// The longest pause while the server stops: what is not delivered within `drain_timeout_seconds` waits for the next start.
const DRAIN_PAUSE_MAX: Duration = Duration::from_millis(500);

/// A sink whose thread has not begun.
pub struct PendingSink {
    opening: SinkOpening,
    lifecycle: SinkLifecycle,
    /// Whether the start fails if the output cannot be opened.
    is_strict: bool,
}

/// A sink's thread at work.
struct SinkThread {
    driver: SinkDriver,
    lifecycle: SinkLifecycle,
    progress: Arc<Progress>,
    /// Never moves: to wait with, while the lanes go on.
    silence: Progress,
    /// When the sink last waited for the lanes.
    looked: Duration,
    /// [`SinkLifecycle::reopens`] at the last look.
    reopens: u64,
    /// The last step has ended in a hold.
    has_held: bool,
    resender: Resender,
    clock: Clock,
}

#[derive(Clone, Copy)]
struct Clock {
    since: Instant,
}

/// The thread while it sends dead letters again.
struct Resends<'a> {
    clock: Clock,
    lifecycle: &'a SinkLifecycle,
    silence: &'a Progress,
}

impl Meantime for Resends<'_> {
    fn now(&self) -> Now {
        self.clock.now()
    }

    fn goes_on(&self) -> bool {
        self.lifecycle.is_working()
    }

    fn wait(&mut self, driver: &mut SinkDriver, patience: Duration) {
        driver.wait(self.silence, self.silence.generation(), patience);
    }
}

impl Clock {
    fn now(&self) -> Now {
        Now::new(self.since.elapsed(), unix_ns())
    }
}

impl PendingSink {
    /// Reads the cursor. The sink's thread opens the output. With `is_strict`, the start fails if the output cannot be opened.
    ///
    /// # Errors
    /// Those of the cursor's file.
    pub fn new(
        index: usize,
        spec: &SinkSpec,
        spool: &Arc<Spool>,
        (retention, replica, window_bytes): (Arc<Retention>, Option<Replica>, u64),
        lifecycle: SinkLifecycle,
        is_strict: bool,
    ) -> Result<PendingSink, SpoolError> {
        let mut opening = SinkOpening::new(index, spec, spool, retention, spool.storage())?;
        opening.replica = replica;
        opening.window_bytes = window_bytes.max(spec.memory_bytes_min());
        lifecycle.begin_paused(opening.is_paused());
        Ok(PendingSink { opening, lifecycle, is_strict })
    }

    /// What the sink has delivered and lost.
    pub fn ledger(&self) -> Arc<SinkLedger> {
        Arc::clone(&self.opening.ledger)
    }

    /// Its name on the disk: not that of the configuration, if it was renamed since.
    pub fn name(&self) -> &str {
        &self.opening.spec.name
    }

    /// Runs until the sink has drained after it was told to, or is told to give up.
    pub fn run(self) {
        let worked = self.open().and_then(|thread| match thread {
            Some(thread) => thread.work(),
            None => Ok(()),
        });
        // If the thread was interrupted, the next start goes on from the last commit.
        drop(worked);
    }

    /// Refuses a path that leads to the server's own files by symbolic links. The configuration was checked by its words alone.
    fn check_place(&self) -> Result<(), OpenError> {
        let SinkOpening { spec, spool, .. } = &self.opening;
        let data = spool.directory();
        match spec.written().and_then(|path| own_place(data, path, resolved)) {
            Some(own) => Err(OpenError::Refused(io::Error::other(refusal(data, &own)))),
            None => Ok(()),
        }
    }

    /// Opens the output once every thread of the start exists. Returns `None` if the output makes the start fail.
    fn open(self) -> Result<Option<SinkThread>, Interrupted> {
        self.lifecycle.enter()?;
        let clock = Clock { since: Instant::now() };
        let SinkOpening { spec, ledger, .. } = &self.opening;
        let mut pause = OPEN_PAUSE_MIN;
        let sink = loop {
            // Its destination may be taken apart: nothing is looked for there.
            self.lifecycle.wait_resumed()?;
            let error = match self.check_place().and_then(|()| self.opening.open_sink(clock.now())) {
                Ok(sink) => break sink,
                Err(OpenError::NotYet(error)) => error,
                Err(OpenError::Refused(error)) => {
                    if self.is_strict && self.lifecycle.refuse(format!("cannot open its output: {error}")) {
                        return Ok(None);
                    }
                    error
                }
            };
            if ledger.problem().is_none() {
                warn!(sink = spec.name, %error, "the output is not open; trying again until it is, messages stay spooled");
            }
            ledger.set_error(&error);
            self.lifecycle.settle();
            self.lifecycle.pause(pause)?;
            pause = (pause * 2).min(OPEN_PAUSE_MAX);
        };
        // Opening may have taken so long that the start was given up.
        self.lifecycle.check()?;
        self.begin(sink, clock)
    }

    /// Makes the first commit: the output's state must be in the cursor before the first message is written to the output.
    fn begin(self, sink: Box<dyn Sink>, clock: Clock) -> Result<Option<SinkThread>, Interrupted> {
        let PendingSink { opening, lifecycle, is_strict } = self;
        let progress = opening.spool.progress();
        let resender = opening.resender();
        let mut driver = opening.begin(sink, clock.now());
        while let Err(error) = driver.begin() {
            if !is_full(&error) && is_strict && lifecycle.refuse(error.to_string()) {
                return Ok(None);
            }
            lifecycle.settle();
            lifecycle.pause(driver.report(&error))?;
        }
        lifecycle.settle();
        lifecycle.wait_begin()?;
        let (silence, looked, reopens) = (Progress::default(), Duration::ZERO, lifecycle.reopens());
        let has_held = false;
        Ok(Some(SinkThread {
            driver,
            lifecycle,
            progress,
            silence,
            looked,
            reopens,
            has_held,
            resender,
            clock,
        }))
    }
}

impl SinkThread {
    fn work(mut self) -> Result<(), Interrupted> {
        loop {
            // Both are read before the step: a lane may write its last messages just after the step has read the lane.
            let seen = self.progress.generation();
            let goal = self.goal();
            self.has_held = false;
            let reopens = self.lifecycle.reopens();
            if std::mem::replace(&mut self.reopens, reopens) != reopens {
                self.driver.reopen();
            }
            match self.driver.step(self.clock.now(), goal) {
                SinkStep::Progressed => {}
                SinkStep::Idle(patience) => self.wait(seen, patience),
                SinkStep::Retry { may_hold: true, .. } if goal == Goal::Hold => self.hold()?,
                SinkStep::Retry { pause, may_hold: true } if goal == Goal::Drain => {
                    self.lifecycle.pause_until_hold(pause.min(DRAIN_PAUSE_MAX), true);
                }
                SinkStep::Retry { pause, may_hold: true } => self.lifecycle.pause_until_hold(pause, false),
                SinkStep::Retry { pause, may_hold: false } => self.lifecycle.pause_without_hold(pause)?,
                SinkStep::Blocked { is_clean: true } | SinkStep::Held => self.hold()?,
                // Some output is not committed yet: the sink can hold only after the reader has taken more.
                SinkStep::Blocked { is_clean: false } => self.lifecycle.check().inspect_err(|_| {
                    warn!(
                        sink = self.driver.name(),
                        "no process read its output: the last message may be cut, and is written again after the next start"
                    );
                })?,
                SinkStep::Drained => {
                    let (sink, delivered) = (self.driver.name(), self.driver.delivered());
                    info!(sink, delivered, "sink drained");
                    return Ok(());
                }
            }
            self.lifecycle.check()?;
            if self.lifecycle.is_draining() && self.has_held && self.lifecycle.is_paused() {
                info!(
                    sink = self.driver.name(),
                    "sink is paused: its messages stay spooled for the next start"
                );
                return Ok(());
            }
        }
    }

    /// Waits until there may be more.
    fn wait(&mut self, seen: u64, patience: Duration) {
        let gathered = self.clock.since.elapsed().saturating_sub(self.looked);
        match self.driver.gathers_for().checked_sub(gathered) {
            Some(early) => self.driver.wait(&self.silence, self.silence.generation(), early.min(patience)),
            None => {
                self.driver.wait(&self.progress, seen, patience);
                self.looked = self.clock.since.elapsed();
            }
        }
    }

    /// Holds for as long as control or an operator asks for it, and does what the operator ordered.
    fn hold(&mut self) -> Result<(), Interrupted> {
        self.has_held = true;
        if self.lifecycle.must_hold() {
            self.driver.close_idle();
        }
        self.lifecycle.hold()?;
        if let Some(Order { task, tell }) = self.lifecycle.take_order() {
            let done = match task {
                Task::Skip(skip) => {
                    let goes_on = || self.lifecycle.is_working();
                    self.driver.skip(skip, self.clock.now(), &goes_on).map(Done::Skipped)
                }
                Task::Resend => {
                    let mut meantime =
                        Resends { clock: self.clock, lifecycle: &self.lifecycle, silence: &self.silence };
                    self.resender.resend(&mut self.driver, &mut meantime).map(Done::Resent)
                }
                Task::Rename(name) => self.resender.rename(&mut self.driver, &name).map(|()| Done::Renamed),
            };
            // Whoever asked may have gone: what was done is in the log.
            let _gone = tell.send(done);
        }
        Ok(())
    }

    fn goal(&self) -> Goal {
        if self.lifecycle.must_hold() {
            Goal::Hold
        } else if self.lifecycle.is_draining() {
            Goal::Drain
        } else {
            Goal::Deliver
        }
    }
}
