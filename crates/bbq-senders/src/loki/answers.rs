//! What senders of Loki are answered. They send again what is answered with 429 or a status from 500 on, and drop what is answered
//! otherwise.

use serde_json::json;

use crate::answer::{Answer, Trouble};

/// All lines are stored, but so many that are too long. Loki, too, stores the others, and says 400.
#[must_use]
pub fn taken(too_long: u64, message_bytes_max: usize) -> Answer {
    if too_long == 0 {
        return Answer::empty(204);
    }
    Answer::text(
        400,
        &format!(
            "{too_long} lines are longer than {message_bytes_max} bytes (message_bytes_max) and were left out; all others are stored"
        ),
    )
}

/// Nothing is stored.
#[must_use]
pub fn refused(trouble: Trouble, why: &str) -> Answer {
    let status = match trouble {
        Trouble::Busy => 429,
        other => other.status(),
    };
    Answer::text(status, why)
}

/// The answer to `GET /ready`.
#[must_use]
pub fn ready(is_ready: bool) -> Answer {
    if is_ready { Answer::text(200, "ready") } else { Answer::text(503, "there is no room now") }
}

/// The answer to the question for the version.
#[must_use]
pub fn build() -> Answer {
    let version = json!({ "version": "3.0.0", "revision": "bbq", "branch": "", "buildUser": "", "buildDate": "", "goVersion": "" });
    Answer::json(200, &version)
}
