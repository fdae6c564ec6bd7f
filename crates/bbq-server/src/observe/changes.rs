//! What the status keeps across restarts in place: the result of the last reload or upgrade, the drops, and since when each finding has
//! been one.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::observe::drops::Drops;
use crate::observe::status::Finding;

/// Lives as long as the process, across restarts in place.
#[derive(Debug)]
pub(crate) struct Changes {
    started: Instant,
    refused: Mutex<Option<String>>,
    pub(crate) drops: Drops,
    /// When each finding that is one now was seen first, by name and subject.
    since: Mutex<BTreeMap<(String, String), Instant>>,
}

impl Changes {
    pub(crate) fn new() -> Changes {
        Changes {
            started: Instant::now(),
            refused: Mutex::new(None),
            drops: Drops::default(),
            since: Mutex::default(),
        }
    }

    /// When the process started to serve.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Tells since when each of the findings has been one, and forgets those that are no longer there.
    pub(crate) fn date(&self, findings: &mut [Finding]) {
        let now = Instant::now();
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *since);
        for finding in findings {
            let key = (finding.name.clone(), finding.subject.clone());
            let first = before.get(&key).copied().unwrap_or(now);
            finding.since_seconds = Some(now.saturating_duration_since(first).as_secs());
            since.insert(key, first);
        }
    }

    /// Sets why the last change was refused; `None` if it was made.
    pub(crate) fn set_refused(&self, why: Option<String>) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    pub(crate) fn refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
