//! What became of the last reload or upgrade, for status.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// As long as the process, over restarts in place.
#[derive(Debug)]
pub(crate) struct Changes {
    started: Instant,
    refused: Mutex<Option<String>>,
}

impl Changes {
    pub(crate) fn new() -> Changes {
        Changes { started: Instant::now(), refused: Mutex::new(None) }
    }

    /// When the process started to serve.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// The last change was not made, and why; `None` once one was.
    pub(crate) fn set_refused(&self, why: Option<String>) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    pub(crate) fn refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
