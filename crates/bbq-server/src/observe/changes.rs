//! What the status keeps across restarts in place: the result of the last reload or upgrade, and the drops.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::observe::drops::Drops;

/// Lives as long as the process, across restarts in place.
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

    /// Sets why the last change was refused; `None` if it was made.
    pub(crate) fn set_refused(&self, why: Option<String>) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    pub(crate) fn refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
