//! What outlives restarts in place, for status: what became of the last reload or upgrade, and which messages are dropped.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::observe::drops::Drops;

/// As long as the process, over restarts in place.
#[derive(Debug)]
pub(crate) struct Changes {
    started: Instant,
    refused: Mutex<Option<String>>,
    pub(crate) drops: Drops,
}

impl Changes {
    pub(crate) fn new() -> Changes {
        Changes { started: Instant::now(), refused: Mutex::new(None), drops: Drops::default() }
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
