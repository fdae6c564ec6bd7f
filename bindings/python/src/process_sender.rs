//! The senders of this process, and their flush when the process exits.
//!
//! At exit all senders are flushed at the same time, and stay open: other exit handlers, such as Python's own `logging`, can still send.
//! The deadline of a sender does not start again.
//!
//! Invariant: the list is locked only with the interpreter held. A thread that forks holds the interpreter, so no child has a locked list.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use bbq_client::{Counters, SendError};
use pyo3::prelude::*;

use crate::notices::Notices;
use crate::process::Generation;
use crate::{errors, waiting};

static SENDERS: Mutex<Vec<Weak<ProcessSender>>> = Mutex::new(Vec::new());

/// A sender and its process.
pub(crate) struct ProcessSender {
    /// `None` only during the drop.
    sender: Option<bbq_client::Sender>,
    generation: Generation,
    close_timeout: Duration,
    notices: Option<Arc<Notices>>,
    closed: AtomicBool,
    /// Set when the process began to exit; `None` is no deadline.
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

    /// The sender, or `Forked` if it belongs to a parent.
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

    /// Waits until everything is acknowledged, at most for `timeout` or the close time-out.
    pub(crate) fn flush(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<()> {
        waiting::flush(py, self.sender()?, self.timeout_or_default(timeout))
    }

    /// Flushes and ends. Closing again changes nothing.
    pub(crate) fn close(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Counters> {
        let sender = self.sender()?;
        if self.closed.load(Ordering::Relaxed) {
            return Ok(py.detach(|| sender.counters()));
        }
        let timeout = self.timeout_or_default(timeout);
        let deadline = Instant::now().checked_add(timeout);
        match waiting::flush(py, sender, timeout) {
            // Ctrl-C, or an exception of a signal handler: the sender stays open.
            Err(error) if !errors::is_bbq_error(py, &error) => return Err(error),
            // The close below returns any other error.
            _ => {}
        }
        let left = deadline.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        self.closed.store(true, Ordering::Relaxed);
        match py.detach(|| sender.close(left)) {
            Ok(counters) => Ok(counters),
            Err(SendError::Timeout { queued, last_problem, .. }) => {
                Err(errors::sending(&SendError::Timeout { queued, waited: timeout, last_problem }))
            }
            Err(error) => Err(errors::sending(&error)),
        }
    }

    /// Closes the sender when its Python object is dropped.
    pub(crate) fn abandon(&self) {
        if let Ok(sender) = self.sender()
            && !self.closed.swap(true, Ordering::Relaxed)
        {
            // Records that are not acknowledged are counted, or in the spool.
            let close = || drop(sender.close(self.timeout_or_default(None)));
            // Without an interpreter there is none to release.
            if Python::try_attach(|py| py.detach(close)).is_none() {
                close();
            }
        }
    }

    fn timeout_or_default(&self, timeout: Option<Duration>) -> Duration {
        let timeout = timeout.unwrap_or(self.close_timeout);
        match self.exit_deadline.get() {
            Some(Some(end)) => timeout.min(end.saturating_duration_since(Instant::now())),
            _ => timeout,
        }
    }
}

impl Drop for ProcessSender {
    fn drop(&mut self) {
        if !self.is_own_process() {
            // The sender's threads are in the parent.
            std::mem::forget(self.sender.take());
        }
    }
}

fn all() -> MutexGuard<'static, Vec<Weak<ProcessSender>>> {
    SENDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Flushes all senders of this process at the same time, each at most for its close time-out. They stay open, but send no more notices.
#[pyfunction]
pub(crate) fn finish_all(py: Python<'_>) -> PyResult<()> {
    let senders: Vec<Arc<ProcessSender>> =
        all().iter().filter_map(Weak::upgrade).filter(|one| one.is_own_process()).collect();
    let now = Instant::now();
    for one in &senders {
        one.exit_deadline.get_or_init(|| now.checked_add(one.close_timeout));
    }
    let flushed = senders.iter().try_for_each(|one| match one.flush(py, None) {
        // A traceback at the end of a program would help nobody. A line on standard error says what is left.
        Err(error) if errors::is_bbq_error(py, &error) => {
            py.detach(|| one.sender.as_ref().is_some_and(|sender| sender.flush_at_exit(Duration::ZERO)));
            Ok(())
        }
        other => other,
    });
    py.detach(|| senders.iter().filter_map(|one| one.notices.as_ref()).for_each(|notices| notices.mute()));
    flushed
}
