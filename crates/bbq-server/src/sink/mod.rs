//! Sinks: each reads all lanes on its own thread, at its own pace, and remembers how far it is.
//!
//! The thread opens the output, formats group after group into a buffer, writes the buffer, and from time to time makes the
//! output durable and then the cursor, in this order: the cursor never says more than the output holds. After a failed write
//! or sync it goes back to the last commit and writes again what came after it. A failing output is retried for as long as
//! the server runs; nothing else waits for it, until the spool is full.
//!
//! All of that is done in steps (`steps`), which never wait; the thread, which is here, waits between them.

mod aside;
mod commit;
mod delivery;
mod file;
mod format;
mod ledger;
mod opening;
mod output;
mod steps;
mod stream;
#[cfg(test)]
mod tests;

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bbq_spool::{Progress, Spool, SpoolError};
use tracing::{info, warn};

use crate::config::SinkSpec;
use crate::lifecycle::{Interrupted, SinkLifecycle};
use crate::retention::Retention;
use crate::time::unix_ns;
use output::{OpenError, Output};

pub use format::Formatter;
pub(crate) use ledger::{Account, OLDEST, SinkLedger};
pub use opening::SinkOpening;
pub use steps::{Now, SinkStep, SinkSteps, Wish};

/// First and longest pause before an output that could not be opened is tried again.
const OPEN_PAUSE_MIN: Duration = Duration::from_millis(50);
const OPEN_PAUSE_MAX: Duration = Duration::from_secs(1);

/// A sink whose thread has not begun.
pub(crate) struct Sink {
    opening: SinkOpening,
    lifecycle: SinkLifecycle,
    /// An output that cannot be opened fails the start.
    is_strict: bool,
}

/// A sink's thread at work.
struct SinkThread {
    steps: SinkSteps,
    lifecycle: SinkLifecycle,
    progress: Arc<Progress>,
    clock: Clock,
}

#[derive(Clone, Copy)]
struct Clock {
    since: Instant,
}

impl Clock {
    fn now(&self) -> Now {
        Now::new(self.since.elapsed(), unix_ns())
    }
}

impl Sink {
    /// Reads the cursor. The output is opened by the sink's thread; with `is_strict` the start fails when it cannot be.
    ///
    /// # Errors
    /// Those of the cursor's file.
    pub(crate) fn new(
        index: usize,
        spec: &SinkSpec,
        spool: &Arc<Spool>,
        retention: Arc<Retention>,
        lifecycle: SinkLifecycle,
        is_strict: bool,
    ) -> Result<Sink, SpoolError> {
        let opening = SinkOpening::new(index, spec, spool, retention, spool.storage())?;
        Ok(Sink { opening, lifecycle, is_strict })
    }

    pub(crate) fn ledger(&self) -> Arc<SinkLedger> {
        Arc::clone(&self.opening.ledger)
    }

    /// Works until it is told to drain and has, or to give up.
    pub(crate) fn run(self) {
        let worked = self.open().and_then(|thread| match thread {
            Some(thread) => thread.work(),
            None => Ok(()),
        });
        // Interrupted: the cursor of the last commit stands; the next start goes on from there.
        drop(worked);
    }

    /// Opens the output when every thread of the start exists. `None` when the start fails because of it.
    fn open(self) -> Result<Option<SinkThread>, Interrupted> {
        self.lifecycle.enter()?;
        let clock = Clock { since: Instant::now() };
        let SinkOpening { spec, ledger, .. } = &self.opening;
        let mut pause = OPEN_PAUSE_MIN;
        let output = loop {
            let error = match self.opening.open_output(clock.now()) {
                Ok(output) => break output,
                Err(OpenError::NotYet(error)) => error,
                Err(OpenError::Refused(error)) => {
                    if self.is_strict && self.lifecycle.refuse(format!("cannot open its output: {error}")) {
                        return Ok(None);
                    }
                    error
                }
            };
            if ledger.trouble().is_none() {
                warn!(sink = spec.name, %error, "the output is not open; trying again until it is, messages stay spooled");
            }
            ledger.set_trouble(Some(error.to_string()));
            self.lifecycle.settle();
            self.lifecycle.pause(pause)?;
            pause = (pause * 2).min(OPEN_PAUSE_MAX);
        };
        // It may have taken so long that the start was given up.
        self.lifecycle.check()?;
        self.begin(output, clock)
    }

    /// The output's state must be in the cursor before the first message is written to it.
    fn begin(self, output: Box<dyn Output>, clock: Clock) -> Result<Option<SinkThread>, Interrupted> {
        let Sink { opening, lifecycle, is_strict } = self;
        let progress = opening.spool.progress();
        let mut steps = opening.begin(output, clock.now());
        while let Err(error) = steps.delivery.begin() {
            let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
            if !is_full && is_strict && lifecycle.refuse(error.to_string()) {
                return Ok(None);
            }
            lifecycle.settle();
            lifecycle.pause(steps.delivery.report(&error))?;
        }
        lifecycle.settle();
        lifecycle.wait_begin()?;
        Ok(Some(SinkThread { steps, lifecycle, progress, clock }))
    }
}

impl SinkThread {
    fn work(mut self) -> Result<(), Interrupted> {
        loop {
            // Both before the step: what the lanes wrote last may come between its reading and this.
            let seen = self.progress.generation();
            let wish = self.wish();
            match self.steps.step(self.clock.now(), wish) {
                SinkStep::Moved => {}
                SinkStep::Idle(patience) => self.progress.wait(seen, patience),
                SinkStep::Again(pause) => self.lifecycle.pause(pause)?,
                SinkStep::Blocked { is_clean: true } | SinkStep::Held => self.lifecycle.hold()?,
                // In the middle of something: only its reader can make this a place to hold at.
                SinkStep::Blocked { is_clean: false } => self.lifecycle.check().inspect_err(|_| {
                    warn!(
                        sink = self.steps.delivery.name(),
                        "nobody read what it writes: the last message may be cut, and comes again with the next start"
                    );
                })?,
                SinkStep::Drained => {
                    let (sink, delivered) = (self.steps.delivery.name(), self.steps.committed().delivered);
                    info!(sink, delivered, "sink drained");
                    return Ok(());
                }
            }
            self.lifecycle.check()?;
        }
    }

    fn wish(&self) -> Wish {
        if self.lifecycle.is_draining() {
            Wish::Drain
        } else if self.lifecycle.is_holding() {
            Wish::Hold
        } else {
            Wish::Deliver
        }
    }
}
