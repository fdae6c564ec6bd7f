//! What a sender is answered, and the reasons for which a request is not taken.

use serde_json::Value;

/// The content type of JSON.
pub const JSON: &str = "application/json";
/// That of other answers.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// An answer over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Of the body; empty if there is none.
    pub content_type: &'static str,
    /// Further headers, in small letters.
    pub headers: &'static [(&'static str, &'static str)],
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Without a body.
    pub(crate) fn empty(status: u16) -> Answer {
        Answer { status, content_type: "", headers: &[], body: Vec::new() }
    }

    /// With a text.
    pub(crate) fn text(status: u16, text: &str) -> Answer {
        Answer { status, content_type: TEXT, headers: &[], body: format!("{text}\n").into_bytes() }
    }

    /// With JSON.
    pub(crate) fn json(status: u16, value: &Value) -> Answer {
        Answer { status, content_type: JSON, headers: &[], body: value.to_string().into_bytes() }
    }
}

/// Why nothing of a request is taken, beside what its parser finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No token was sent.
    TokenMissing,
    /// `Authorization` has a scheme that is not known.
    TokenScheme,
    /// The token is not known.
    TokenWrong,
    /// The sender may not send this.
    Forbidden,
    /// The request is not as it should be.
    Malformed,
    /// It is too large.
    TooLarge,
    /// Its coding is not known.
    Coding,
    /// Its address sends too much.
    Slowed,
    /// There is no room now.
    Busy,
    /// It did not arrive in time.
    Late,
    /// It could not be stored.
    Failed,
    /// It may be stored later.
    Undecided,
}

impl Trouble {
    /// The status by HTTP alone. Senders drop what is answered with 408, so that is 503.
    pub(crate) fn status(self) -> u16 {
        match self {
            Trouble::TokenMissing | Trouble::TokenScheme | Trouble::TokenWrong => 401,
            Trouble::Forbidden => 403,
            Trouble::Malformed => 400,
            Trouble::TooLarge => 413,
            Trouble::Coding => 415,
            Trouble::Slowed => 429,
            Trouble::Busy | Trouble::Late | Trouble::Failed => 503,
            Trouble::Undecided => 504,
        }
    }
}
