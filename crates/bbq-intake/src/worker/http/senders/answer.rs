//! Answers of bbq-senders as responses, and the reasons of refusals in the words of their senders.

use bbq_senders::{Answer, Request, Trouble, elasticsearch, gelf, journal, loki, splunk};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use crate::access::Denied;
use crate::worker::http::body::HeldBody;
use crate::worker::http::refused::Refused;
use crate::worker::http::response_body::ResponseBody;

/// Bytes of a body that counts towards the memory of the worker until its client has it.
const COUNTED_BYTES_MIN: usize = 64 * 1024;

/// An answer, and what counts its memory.
pub(super) struct Answered {
    pub(super) answer: Answer,
    pub(super) held: Option<HeldBody>,
}

impl From<Answer> for Answered {
    fn from(answer: Answer) -> Answered {
        Answered { answer, held: None }
    }
}

/// Why a request has no answer that its messages are stored.
pub(super) enum Stop {
    /// For a reason that all senders have.
    Refused(Refused),
    /// For a reason of its protocol, in words for the log.
    Rejected(Answer, String),
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Stop {
        Stop::Refused(refused)
    }
}

/// The response. A `HEAD` has none of the body.
pub(super) fn response(Answered { answer, held }: Answered, is_head: bool) -> Response<ResponseBody> {
    let Answer { status, content_type, headers, body } = answer;
    let body = if is_head { Vec::new() } else { body };
    let body = match held {
        Some(mut held) if body.len() >= COUNTED_BYTES_MIN => {
            // The messages are stored, and the sender must learn that, whatever memory there is.
            let _counted = held.replace(body.len());
            ResponseBody::counted(body, held)
        }
        _ => ResponseBody::new(body),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if !content_type.is_empty() {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    for (name, value) in headers {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// What a sender is answered whose request is refused.
pub(super) fn refused(asked: &Request, refused: &Refused) -> Answer {
    let (trouble, why) = (trouble(refused), refused.to_string());
    match asked {
        Request::Loki(_) => loki::refused(trouble, &why),
        Request::Elasticsearch(_) => elasticsearch::refused(trouble, &why),
        Request::Splunk(_) => splunk::refused(trouble, &why),
        Request::Gelf => gelf::refused(trouble, &why),
        Request::Journal => journal::refused(trouble, &why),
    }
}

fn trouble(refused: &Refused) -> Trouble {
    match refused {
        Refused::Token(Denied::Missing) => Trouble::TokenMissing,
        Refused::Token(Denied::Wrong) => Trouble::TokenWrong,
        Refused::Scheme => Trouble::TokenScheme,
        Refused::Full | Refused::Stopping | Refused::NoMemory | Refused::Busy => Trouble::Busy,
        Refused::Slowed { .. } => Trouble::Slowed,
        Refused::Timeout => Trouble::Late,
        Refused::Undecided { .. } => Trouble::Undecided,
        Refused::Dropped | Refused::Failed | Refused::Unsure => Trouble::Failed,
        other => match other.status() {
            StatusCode::FORBIDDEN => Trouble::Forbidden,
            StatusCode::PAYLOAD_TOO_LARGE => Trouble::TooLarge,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Trouble::Coding,
            _ => Trouble::Malformed,
        },
    }
}

#[cfg(test)]
mod tests {
    use bbq_senders::splunk::Asked;

    use super::*;

    #[test]
    fn a_full_spool_is_told_so_that_the_sender_tries_again() {
        let status = |asked: &Request, why: &Refused| refused(asked, why).status;
        let elasticsearch = Request::Elasticsearch(elasticsearch::Asked::Setup);
        for (asked, full, failed) in [
            (Request::Loki(loki::Asked::Push), 429, 503),
            (elasticsearch, 429, 503),
            (Request::Splunk(Asked::Event), 503, 500),
            (Request::Gelf, 503, 503),
        ] {
            for why in [Refused::Full, Refused::NoMemory, Refused::Busy] {
                assert_eq!(status(&asked, &why), full, "{asked:?}");
            }
            assert_eq!(status(&asked, &Refused::Failed), failed, "{asked:?}");
            assert_eq!(status(&asked, &Refused::Undecided { seconds: 1 }), 504, "{asked:?}");
            assert_eq!(status(&asked, &Refused::BodyTooLarge { bytes_max: 1 }), 413, "{asked:?}");
            assert_eq!(status(&asked, &Refused::Encoding), 415, "{asked:?}");
            assert_eq!(status(&asked, &Refused::Incomplete), 400, "{asked:?}");
            assert_eq!(status(&asked, &Refused::Token(Denied::Missing)), 401, "{asked:?}");
        }
    }
}
