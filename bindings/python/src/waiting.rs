//! Waiting in Python: other threads run meanwhile, and Ctrl-C ends the wait.

use std::time::{Duration, Instant};

use bbq_client::{SendError, Sender};
use pyo3::prelude::*;

use crate::errors;
use crate::message::Message;

/// How soon Ctrl-C is noticed.
const SLICE: Duration = Duration::from_millis(100);

/// Sends messages until one is refused or a signal handler raises. Returns how many were taken. A message that is not taken because of a
/// signal is not counted as dropped.
pub(crate) fn send_all(py: Python<'_>, sender: &Sender, messages: &[Message<'_>]) -> (u64, PyResult<()>) {
    let mut raised = None;
    let mut go_on = || match Python::attach(|py| py.check_signals()) {
        Ok(()) => true,
        Err(error) => {
            raised = Some(error);
            false
        }
    };
    let (taken, sent) = py.detach(|| {
        for (message, taken) in messages.iter().zip(0..) {
            match sender.send_while(message.bytes(), SLICE, &mut go_on) {
                Some(Ok(())) => {}
                Some(Err(error)) => return (taken, Err(error)),
                None => return (taken, Ok(())),
            }
        }
        (messages.len() as u64, Ok(()))
    });
    match raised {
        Some(error) => (taken, Err(error)),
        None => (taken, sent.map_err(|error| errors::sending(&error))),
    }
}

/// Waits until every message taken before is acknowledged.
pub(crate) fn flush(py: Python<'_>, sender: &Sender, timeout: Duration) -> PyResult<()> {
    let deadline = Instant::now().checked_add(timeout);
    let target = py.detach(|| sender.last_sequence());
    loop {
        let left = deadline.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        match py.detach(|| sender.flush(left.min(SLICE))) {
            Ok(()) => return Ok(()),
            // The last slice also waited for messages that were taken since; those up to `target` are enough.
            Err(SendError::Timeout { .. }) if py.detach(|| is_acknowledged(sender, target)) => return Ok(()),
            Err(SendError::Timeout { queued, last_problem, .. }) if left <= SLICE => {
                let error = SendError::Timeout { queued, waited: timeout, last_problem };
                return Err(errors::sending(&error));
            }
            Err(SendError::Timeout { .. }) => py.check_signals()?,
            Err(error) => return Err(errors::sending(&error)),
        }
    }
}

fn is_acknowledged(sender: &Sender, sequence: u64) -> bool {
    sender.servers().iter().all(|server| server.acknowledged_sequence >= sequence)
}
