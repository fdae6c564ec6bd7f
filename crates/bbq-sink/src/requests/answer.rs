//! What a response says.

use std::fmt;
use std::pin::Pin;

/// What a response says of the messages of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The receiver has all messages of the request.
    Taken,
    /// It has all but so many, which it refuses for good. It does not say which.
    Partly {
        /// How many it refuses.
        rejected: u64,
        /// For people.
        why: String,
    },
    /// It has none, or some, and may take the others later.
    Later(String),
    /// It refuses some for good, and says so of the first of these.
    Refused(String),
    /// There is too much in the request.
    TooLarge(String),
    /// It failed on the request, as it may on a message that it cannot handle, or on any.
    Failed(String),
}

/// What is left to do before another request is sent.
type Rest = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A response.
pub struct Answer {
    pub(super) verdict: Verdict,
    /// The receiver has taken some of the messages, whatever the verdict is.
    pub(super) has_taken_some: bool,
    pub(super) rest: Option<Rest>,
}

impl Answer {
    /// The receiver has some of the messages, although the verdict speaks of others.
    #[must_use]
    pub fn with_some_taken(self) -> Answer {
        Answer { has_taken_some: true, ..self }
    }

    /// Waits for `rest` once the verdict is carried out: what is left of the response does not matter, and is read so that its connection
    /// can be used again.
    #[must_use]
    pub fn with_rest(self, rest: impl Future<Output = ()> + Send + 'static) -> Answer {
        Answer { rest: Some(Box::pin(rest)), ..self }
    }
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Answer {
        Answer { verdict, has_taken_some: false, rest: None }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.verdict.fmt(f)
    }
}
