//! What the status keeps across restarts in place: the result of the last reload or upgrade, the drops, and since when each finding has
//! been one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::drops::Drops;
use crate::status::Finding;

/// Lives as long as the process, across restarts in place.
#[derive(Debug)]
pub struct Changes {
    started: Instant,
    refused: Mutex<Option<String>>,
    pub(crate) drops: Drops,
    /// When each finding that is one now was seen first, by name and subject.
    since: Mutex<BTreeMap<(String, String), Instant>>,
    is_looked_at: AtomicBool,
}

impl Changes {
    /// The process starts to serve now.
    #[must_use]
    pub fn begin() -> Changes {
        Changes {
            started: Instant::now(),
            refused: Mutex::new(None),
            drops: Drops::default(),
            since: Mutex::default(),
            is_looked_at: AtomicBool::new(false),
        }
    }

    /// When the process started to serve.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// From now on somebody looks once a second, so that it is known since when a finding has been one.
    pub(crate) fn look(&self) {
        self.is_looked_at.store(true, Ordering::Relaxed);
    }

    /// Tells since when each of the findings has been one, and forgets those that are no longer there. Nothing, if nobody looks.
    pub(crate) fn date(&self, findings: &mut [Finding]) {
        if !self.is_looked_at.load(Ordering::Relaxed) {
            return;
        }
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
    pub fn set_refused(&self, why: Option<String>) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    pub(crate) fn refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::status::Level;

    fn finding(subject: &str) -> Finding {
        let [name, text, effect, remedy] = ["some", "", "", ""].map(str::to_owned);
        let (level, subject) = (Level::Problem, subject.to_owned());
        Finding { level, name, subject, text, effect, remedy, since_seconds: None }
    }

    #[test]
    fn a_finding_is_dated_from_its_first_look_and_forgotten_when_it_is_gone() {
        let changes = Changes::begin();
        let mut found = [finding("a")];
        changes.date(&mut found);
        assert_eq!(found[0].since_seconds, None, "nobody looks");
        changes.look();
        changes.date(&mut found);
        for since in changes.since.lock().unwrap().values_mut() {
            *since = since.checked_sub(Duration::from_secs(60)).unwrap();
        }
        let mut both = [finding("a"), finding("b")];
        changes.date(&mut both);
        assert!(both[0].since_seconds >= Some(60) && both[1].since_seconds < Some(60), "{both:?}");
        changes.date(&mut []);
        changes.date(&mut found);
        assert!(found[0].since_seconds < Some(60), "{found:?}");
    }
}
