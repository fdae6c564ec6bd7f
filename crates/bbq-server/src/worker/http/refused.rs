//! Why a request is refused, as its client reads it.

use hyper::StatusCode;
use hyper::header::{ALLOW, HeaderName, HeaderValue, RETRY_AFTER};

/// How long a client is asked to wait when there is no room: a sync or the next segment takes less, a sink that stands still
/// more.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// Why a request was refused. Nothing of it was taken, unless it is undecided.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("no such path; POST a message to / or lines to /ndjson")]
    Path,
    #[error("use POST")]
    Method,
    #[error("unknown query {0:?}; allowed is ack=durable, ack=received or ack=none")]
    Query(String),
    #[error("Content-Encoding is not supported; send the body as it is")]
    Encoding,
    #[error("the body is longer than {bytes_max} bytes; send fewer messages, or shorter ones")]
    BodyTooLarge { bytes_max: usize },
    #[error(
        "a message is longer than {bytes_max} bytes (message_bytes_max), or there are too many for one request"
    )]
    TooLarge { bytes_max: usize },
    #[error("the body did not come in time")]
    Late,
    #[error("the body ended too early")]
    Incomplete,
    #[error("too much is held in unfinished requests; try again")]
    NoMemory,
    #[error("the spool is full; try again")]
    Full,
    #[error("the spool is full, and the messages were dropped (on_full=drop-newest)")]
    Dropped,
    #[error("the messages could not be written to disk; see the server's log")]
    Failed,
    #[error(
        "the messages are not on disk within {seconds} s, and may still get there: if they are sent again, they may be stored twice"
    )]
    Undecided { seconds: u32 },
}

impl Refused {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Refused::Path => StatusCode::NOT_FOUND,
            Refused::Method => StatusCode::METHOD_NOT_ALLOWED,
            Refused::Query(_) | Refused::Incomplete => StatusCode::BAD_REQUEST,
            Refused::Encoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Refused::BodyTooLarge { .. } | Refused::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Refused::Late => StatusCode::REQUEST_TIMEOUT,
            Refused::NoMemory | Refused::Full | Refused::Dropped | Refused::Failed => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Refused::Undecided { .. } => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// A header that goes with the status.
    pub(super) fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Refused::Method => Some((ALLOW, HeaderValue::from_static("POST"))),
            Refused::NoMemory | Refused::Full => Some((RETRY_AFTER, RETRY_AFTER_SECONDS)),
            _ => None,
        }
    }
}
