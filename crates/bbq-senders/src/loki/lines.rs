//! The lines of a push request on their way to events, and why there are none.

use bbq_wire::batch::Events;
use bbq_wire::otlp::Malformed;

use crate::collected::{Collected, TooMuch};
use crate::limits::Limits;

/// Why a request cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// It is none.
    #[error("the body is not a push request of Loki: {0}")]
    Malformed(String),
    /// It is too large.
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
}

impl PushError {
    pub(super) fn of(why: impl Into<String>) -> PushError {
        PushError::Malformed(why.into())
    }
}

impl From<Malformed> for PushError {
    fn from(why: Malformed) -> PushError {
        PushError::of(why.to_string())
    }
}

impl From<serde_json::Error> for PushError {
    fn from(why: serde_json::Error) -> PushError {
        PushError::of(why.to_string())
    }
}

/// The lines that are collected.
pub(super) struct Lines {
    collected: Collected,
    too_long: u64,
}

impl Lines {
    pub(super) fn new(limits: Limits) -> Lines {
        Lines { collected: Collected::new(limits), too_long: 0 }
    }

    /// What was collected, and how many lines were left out because they are too long.
    pub(super) fn into_events(self) -> (Events, u64) {
        (self.collected.events, self.too_long)
    }

    pub(super) fn push(&mut self, line: &[u8], time_ns: u64, fields: &[(&str, &str)]) -> Result<(), TooMuch> {
        if self.collected.fits(line) {
            return self.collected.push(line, time_ns, fields);
        }
        self.too_long += 1;
        Ok(())
    }
}

/// The fields of a line: the tenant, the labels of its stream, and what the line has of its own. The memory for them is used again.
pub(super) struct LineFields<'a> {
    fields: Vec<(&'a str, &'a str)>,
    of_stream: usize,
}

impl<'a> LineFields<'a> {
    pub(super) fn of_stream(tenant: Option<&'a str>, labels: &'a [(String, String)]) -> LineFields<'a> {
        let labels = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let fields: Vec<_> = tenant.map(|tenant| ("tenant", tenant)).into_iter().chain(labels).collect();
        LineFields { of_stream: fields.len(), fields }
    }

    /// Those of the next line, without metadata of its own so far.
    pub(super) fn next_line(&mut self) -> &mut Vec<(&'a str, &'a str)> {
        self.fields.truncate(self.of_stream);
        &mut self.fields
    }
}
