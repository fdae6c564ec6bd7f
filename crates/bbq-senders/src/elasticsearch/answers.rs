//! Errors in the form of Elasticsearch. Senders send again what is answered with 429 or from 500 on, and make a request smaller at 413.

use serde_json::json;

use super::PRODUCT;
use crate::answer::{Answer, Trouble};

/// Nothing is stored.
#[must_use]
pub fn refused(trouble: Trouble, why: &str) -> Answer {
    let (status, kind) = match trouble {
        Trouble::Busy | Trouble::Slowed => (429, "es_rejected_execution_exception"),
        Trouble::TokenMissing | Trouble::TokenScheme | Trouble::TokenWrong => (401, "security_exception"),
        Trouble::Forbidden => (403, "security_exception"),
        Trouble::Malformed | Trouble::Coding => (trouble.status(), "illegal_argument_exception"),
        Trouble::TooLarge => (413, "content_too_long_exception"),
        Trouble::Late | Trouble::Failed | Trouble::Undecided => {
            (trouble.status(), "unavailable_shards_exception")
        }
    };
    error(status, kind, why)
}

/// The answer to what only a search engine can do.
#[must_use]
pub fn no_search() -> Answer {
    let why = "bbq is a queue and no search engine: it takes documents by _bulk and passes them on; search where its sinks deliver";
    error(501, "unsupported_operation_exception", why)
}

fn error(status: u16, kind: &str, why: &str) -> Answer {
    let cause = json!({ "type": kind, "reason": why });
    let body = json!({ "error": { "root_cause": [cause], "type": kind, "reason": why }, "status": status });
    Answer { headers: PRODUCT, ..Answer::json(status, &body) }
}
