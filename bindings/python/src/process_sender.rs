//! Senders that are not closed, so that none is forgotten when the process ends.
//!
//! At exit they are flushed, all by the same deadlines, and stay open: what other exit handlers log, Python's own `logging` among
//! them, still goes out, but nobody waits for a second time.
//!
//! Invariant: the list is only locked with the interpreter held, which the thread that forks has; so no child finds it locked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use bbq_client::{Counters, SendError};
use pyo3::prelude::*;

use crate::notices::Notices;
use crate::process::Generation;
use crate::{errors, waiting};

static SENDERS: Mutex<Vec<Weak<ProcessSender>>> = Mutex::new(Vec::new());

/// A sender, and the process it lives in.
pub(crate) struct ProcessSender {
    /// `None` only while it is dropped.
    sender: Option<bbq_client::Sender>,
    generation: Generation,
    close_timeout: Duration,
    notices: Option<Arc<Notices>>,
    closed: AtomicBool,
    /// Set when the process began to end; `None` is without end.
    exit_deadline: OnceLock<Option<Instant>>,
}

impl ProcessSender {
    pub(crate) fn new(
        sender: bbq_client::Sender,
        close_timeout: Duration,
        notices: Option<Arc<Notices>>,
    ) -> Arc<ProcessSender> {
        let inner = Arc::new(ProcessSender {
            sender: Some(sender),
            generation: Generation::current(),
            close_timeout,
            notices,
            closed: AtomicBool::new(false),
            exit_deadline: OnceLock::new(),
        });
        let mut all = all();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&inner));
        inner
    }

    #[inline]
    pub(crate) fn is_own_process(&self) -> bool {
        self.generation.is_current()
    }

    /// The sender, unless it is the parent's.
    #[inline]
    pub(crate) fn sender(&self) -> PyResult<&bbq_client::Sender> {
        if !self.is_own_process() {
            return Err(errors::forked());
        }
        self.sender.as_ref().ok_or_else(errors::closed)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Waits until everything is acknowledged, for `timeout` or as long as a close does.
    pub(crate) fn flush(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<()> {
        waiting::flush(py, self.sender()?, self.timeout_or_default(timeout))
    }

    /// Flushes and ends. Closing again changes nothing.
    pub(crate) fn close(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Counters> {
        let sender = self.sender()?;
        if self.closed.load(Ordering::Relaxed) {
            return Ok(py.detach(|| sender.counters()));
        }
        let patience = self.timeout_or_default(timeout);
        let deadline = Instant::now().checked_add(patience);
        match waiting::flush(py, sender, patience) {
            // Ctrl-C, or an exception of another signal's handler: the sender goes on.
            Err(error) if !errors::is_ours(py, &error) => return Err(error),
            // What else went wrong is for the close to say.
            _ => {}
        }
        let left = deadline.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        self.closed.store(true, Ordering::Relaxed);
        match py.detach(|| sender.close(left)) {
            Ok(counters) => Ok(counters),
            Err(SendError::Timeout { queued, .. }) => {
                Err(errors::sending(&SendError::Timeout { queued, waited: patience }))
            }
            Err(error) => Err(errors::sending(&error)),
        }
    }

    /// Ends in the way that nobody asks about: its owner was forgotten.
    pub(crate) fn abandon(&self) {
        if let Ok(sender) = self.sender()
            && !self.closed.swap(true, Ordering::Relaxed)
        {
            // What was not acknowledged is counted, or in the spool; there is nobody to tell.
            let close = || drop(sender.close(self.timeout_or_default(None)));
            // Without an interpreter to release there is nobody who would have to wait for it.
            if Python::try_attach(|py| py.detach(close)).is_none() {
                close();
            }
        }
    }

    fn timeout_or_default(&self, timeout: Option<Duration>) -> Duration {
        let patience = timeout.unwrap_or(self.close_timeout);
        match self.exit_deadline.get() {
            Some(Some(end)) => patience.min(end.saturating_duration_since(Instant::now())),
            _ => patience,
        }
    }
}

impl Drop for ProcessSender {
    fn drop(&mut self) {
        if !self.is_own_process() {
            // The threads to join are in the parent.
            std::mem::forget(self.sender.take());
        }
    }
}

fn all() -> MutexGuard<'static, Vec<Weak<ProcessSender>>> {
    SENDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until every sender of this process has everything acknowledged, each as long as its close would, and all at once. They
/// stay open; their notices end.
#[pyfunction]
pub(crate) fn finish_all(py: Python<'_>) -> PyResult<()> {
    let senders: Vec<Arc<ProcessSender>> =
        all().iter().filter_map(Weak::upgrade).filter(|one| one.is_own_process()).collect();
    let now = Instant::now();
    for one in &senders {
        one.exit_deadline.get_or_init(|| now.checked_add(one.close_timeout));
    }
    let flushed = senders.iter().try_for_each(|one| match one.flush(py, None) {
        // Counted, or in the spool: the end of a program is no place for a traceback about it.
        Err(error) if errors::is_ours(py, &error) => Ok(()),
        other => other,
    });
    py.detach(|| senders.iter().filter_map(|one| one.notices.as_ref()).for_each(|notices| notices.mute()));
    flushed
}
