//! Why a request is refused, as its client reads it.

use bbq_stored::NotAdmitted;
use hyper::StatusCode;
use hyper::header::{ACCEPT_ENCODING, ALLOW, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};

use super::coding::{self, NotDecoded};
use crate::access::{Denied, SenderLimit};

/// How long a client is asked to wait when there is no room. A sync or a new segment takes less; a stalled sink takes more.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// Why a request was refused. None of its messages was taken, except perhaps in the case [`Refused::Undecided`].
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("{0}; send it in the header Authorization: Bearer TOKEN")]
    Token(Denied),
    #[error(
        "a token is needed here, and Authorization has none of the schemes Bearer, Basic, ApiKey and Splunk; send it in the header \
         Authorization: Bearer TOKEN"
    )]
    Scheme,
    #[error(
        "no such path; POST a message to /, lines to /ndjson, OTLP logs to /v1/logs, or use a path of Loki, Elasticsearch, Splunk, Graylog or systemd-journal-upload"
    )]
    Path,
    #[error("no such path; POST OTLP logs to /v1/logs (traces and metrics are not taken)")]
    LogsPath,
    #[error("the Content-Type of OTLP logs is application/x-protobuf or application/json")]
    ContentType,
    #[error("the body is not OTLP logs: {0}")]
    Logs(String),
    #[error(
        "the log records, each with its resource and scope, are longer than {bytes_max} bytes; send fewer log records in a request"
    )]
    LogsTooLarge { bytes_max: usize },
    #[error("OTLP logs are not numbered; leave BBQ-Stream and BBQ-Sequence out")]
    NumberedLogs,
    #[error(
        "this listener filters messages (where, sample, redact), so they have no numbers of their sender; leave BBQ-Stream and BBQ-Sequence out"
    )]
    NumberedFiltered,
    #[error("use POST; CORS is not supported, so a page of another site cannot send here")]
    Method,
    #[error("an HTTP/1.1 request must have one Host header, and no request may have two")]
    Host,
    #[error(
        "a page of another site sent this from a browser; bbq takes messages from programs, and from pages of the same site behind a proxy"
    )]
    OtherSite,
    #[error(
        "a browser on this machine sent this under the host name {0:?}, which is not the machine's; if a proxy is in front of the listener, \
         let the proxy send Host: localhost"
    )]
    OtherName(String),
    #[error("the body is empty; a message has at least one byte here")]
    Empty,
    #[error("unknown query {0:?}; allowed: ack=durable, ack=received or ack=none")]
    Query(String),
    #[error("unknown Content-Encoding; send the body as it is, or in one of gzip, deflate, zstd")]
    Encoding,
    #[error(
        "BBQ-Stream (32 hex digits) and BBQ-Sequence (the number of the first message, from 1) go together, each once"
    )]
    Numbers,
    #[error("{0}; use another id as BBQ-Stream")]
    Stream(NotAdmitted),
    #[error(
        "too many ranges of this stream are missing here to tell whether these messages are known; they are not stored: send them in a new \
         stream (another BBQ-Stream), where they may be stored twice"
    )]
    Unsure,
    #[error("ack=none does not go together with BBQ-Stream; use ack=durable or ack=received")]
    NumbersWithoutAck,
    #[error(
        "numbers are skipped: the next number of this stream is {expected}; send what is missing first, or begin a new stream at 1"
    )]
    Gap { expected: u64 },
    #[error("another worker serves the stream, and accepts no request now; try again")]
    Busy,
    #[error("{0}")]
    NotDecoded(NotDecoded),
    #[error("the body, decoded, is longer than {bytes_max} bytes; send fewer messages, or shorter ones")]
    BodyTooLarge { bytes_max: usize },
    #[error(
        "a message is longer than {bytes_max} bytes (message_bytes_max), or there are too many for one request"
    )]
    TooLarge { bytes_max: usize },
    #[error("the body did not arrive in time")]
    Timeout,
    #[error("the body ended too early")]
    Incomplete,
    #[error("unfinished requests hold too much memory; try again")]
    NoMemory,
    #[error("there is no room in the spool or on its disk; try again")]
    Full,
    #[error("the server stops; try again")]
    Stopping,
    #[error("{limit}; try again in {seconds} s")]
    Slowed { limit: SenderLimit, seconds: u64 },
    #[error("the spool is full, and the messages were dropped (on_full=drop-newest)")]
    Dropped,
    #[error("the messages could not be written to disk; see the server's log")]
    Failed,
    #[error(
        "the messages were not on disk within {seconds} s, and may be stored later: if they are sent again, they may be stored twice"
    )]
    Undecided { seconds: u32 },
}

impl Refused {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Refused::Token(_) | Refused::Scheme => StatusCode::UNAUTHORIZED,
            Refused::Path | Refused::LogsPath => StatusCode::NOT_FOUND,
            Refused::Method => StatusCode::METHOD_NOT_ALLOWED,
            Refused::Query(_)
            | Refused::Host
            | Refused::Empty
            | Refused::Incomplete
            | Refused::NotDecoded(_)
            | Refused::Logs(_)
            | Refused::NumberedLogs
            | Refused::NumberedFiltered
            | Refused::Numbers
            | Refused::Stream(NotAdmitted::Own)
            | Refused::NumbersWithoutAck => StatusCode::BAD_REQUEST,
            Refused::Stream(NotAdmitted::Foreign | NotAdmitted::WithoutToken)
            | Refused::OtherSite
            | Refused::OtherName(_) => StatusCode::FORBIDDEN,
            Refused::Gap { .. } => StatusCode::CONFLICT,
            Refused::Encoding | Refused::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Refused::BodyTooLarge { .. } | Refused::TooLarge { .. } | Refused::LogsTooLarge { .. } => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            Refused::Timeout => StatusCode::REQUEST_TIMEOUT,
            Refused::NoMemory
            | Refused::Full
            | Refused::Stopping
            | Refused::Busy
            | Refused::Unsure
            | Refused::Dropped
            | Refused::Failed => StatusCode::SERVICE_UNAVAILABLE,
            Refused::Slowed { .. } => StatusCode::TOO_MANY_REQUESTS,
            Refused::Undecided { .. } => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// The gRPC code of this refusal (google.rpc.Code).
    pub(super) fn code(&self) -> i32 {
        const INVALID_ARGUMENT: i32 = 3;
        const PERMISSION_DENIED: i32 = 7;
        const DEADLINE_EXCEEDED: i32 = 4;
        const RESOURCE_EXHAUSTED: i32 = 8;
        const UNIMPLEMENTED: i32 = 12;
        const UNAVAILABLE: i32 = 14;
        const UNAUTHENTICATED: i32 = 16;
        match self.status() {
            // Exporters of OpenTelemetry send again what is answered so.
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => DEADLINE_EXCEEDED,
            StatusCode::UNAUTHORIZED => UNAUTHENTICATED,
            StatusCode::FORBIDDEN => PERMISSION_DENIED,
            StatusCode::PAYLOAD_TOO_LARGE => RESOURCE_EXHAUSTED,
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                UNIMPLEMENTED
            }
            _ => INVALID_ARGUMENT,
        }
    }

    /// A header that some statuses need.
    pub(super) fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Refused::Token(_) | Refused::Scheme => {
                Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")))
            }
            Refused::Method => Some((ALLOW, HeaderValue::from_static("POST"))),
            Refused::Encoding => Some((ACCEPT_ENCODING, coding::ACCEPTED)),
            Refused::Slowed { seconds, .. } => Some((RETRY_AFTER, HeaderValue::from(*seconds))),
            Refused::NoMemory | Refused::Full | Refused::Stopping | Refused::Busy => {
                Some((RETRY_AFTER, RETRY_AFTER_SECONDS))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Denied;

    #[test]
    fn a_call_without_a_valid_token_is_unauthenticated() {
        for denied in [Denied::Missing, Denied::Wrong] {
            assert_eq!(Refused::Token(denied).code(), 16);
        }
    }

    #[test]
    fn a_sender_that_is_slowed_down_reads_over_which_limit_it_is_and_when_to_try_again() {
        for (limit, named, other) in [
            (SenderLimit::Rate, "messages_per_second_per_address_max", "decompress"),
            (SenderLimit::Growth, "decompress to over a thousand times", "messages_per_second"),
        ] {
            let refused = Refused::Slowed { limit, seconds: 3 };
            let text = refused.to_string();
            assert!(text.contains(named) && !text.contains(other), "{text}");
            assert!(text.ends_with("; try again in 3 s"), "{text}");
            assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(refused.header(), Some((RETRY_AFTER, HeaderValue::from(3))));
        }
    }
}
