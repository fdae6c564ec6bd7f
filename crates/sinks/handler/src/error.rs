//! Why a handler did not handle a batch.

use std::error::Error;
use std::fmt;

use super::batch::Message;
use super::position::Position;

/// What a [`Handler`](super::Handler) returns instead of `Ok`. Every error becomes one that is tried again, so `?` works; for
/// that reason this type itself is no [`Error`].
#[derive(Debug)]
pub struct HandlerError(pub(super) Kind);

#[derive(Debug)]
pub(super) enum Kind {
    Retry(String),
    Refuse { position: Position, why: String },
}

impl HandlerError {
    /// The messages are to come again. `why` is shown in the status and the log.
    pub fn retry(why: impl fmt::Display) -> HandlerError {
        HandlerError(Kind::Retry(why.to_string()))
    }

    /// This message will never be handled. It is kept in DATA/dead-letters, where `bbq spool cat` shows it with `why`. The messages
    /// before it in the batch count as handled: a handler with a transaction commits them first.
    pub fn refuse(message: &Message<'_>, why: impl fmt::Display) -> HandlerError {
        HandlerError(Kind::Refuse { position: message.position, why: why.to_string() })
    }
}

impl<E: Error> From<E> for HandlerError {
    fn from(error: E) -> HandlerError {
        HandlerError::retry(bbq_spec::with_sources(&error))
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Retry(why) => f.write_str(why),
            Kind::Refuse { why, .. } => write!(f, "refused: {why}"),
        }
    }
}
