//! The answers of the collector: a code and its text.

use serde_json::{Value, json};

use crate::answer::{Answer, Trouble};
use crate::collected::TooMuch;

/// The codes of the collector. The variants say what they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of Splunk's documentation")]
pub enum Code {
    Success,
    TokenRequired,
    InvalidAuthorization,
    InvalidToken,
    NoData,
    InvalidDataFormat,
    InternalServerError,
    ServerIsBusy,
    ChannelMissing,
    InvalidChannel,
    EventRequired,
    EventBlank,
    IndexedFields,
    Healthy,
    Unhealthy,
}

impl Code {
    /// Number, status and text.
    fn known(self) -> (u8, u16, &'static str) {
        match self {
            Code::Success => (0, 200, "Success"),
            Code::TokenRequired => (2, 401, "Token is required"),
            Code::InvalidAuthorization => (3, 401, "Invalid authorization"),
            Code::InvalidToken => (4, 403, "Invalid token"),
            Code::NoData => (5, 400, "No data"),
            Code::InvalidDataFormat => (6, 400, "Invalid data format"),
            Code::InternalServerError => (8, 500, "Internal server error"),
            Code::ServerIsBusy => (9, 503, "Server is busy"),
            Code::ChannelMissing => (10, 400, "Data channel is missing"),
            Code::InvalidChannel => (11, 400, "Invalid data channel"),
            Code::EventRequired => (12, 400, "Event field is required"),
            Code::EventBlank => (13, 400, "Event field cannot be blank"),
            Code::IndexedFields => (15, 400, "Error in handling indexed fields"),
            Code::Healthy => (17, 200, "HEC is healthy"),
            Code::Unhealthy => (18, 503, "HEC is unhealthy, queues are full"),
        }
    }

    fn body(self) -> Value {
        let (number, _, text) = self.known();
        json!({ "text": text, "code": number })
    }

    fn answer(self) -> Answer {
        Answer::json(self.known().1, &self.body())
    }
}

/// Why nothing of a request is taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", self.code.known().2, self.why)]
pub struct Rejected {
    /// By Splunk's list.
    pub code: Code,
    /// The place of the event that is wrong, from 0.
    pub event: Option<usize>,
    /// What is wrong, behind a colon; may be empty.
    pub(super) why: String,
    pub(super) is_too_large: bool,
}

impl Rejected {
    /// With a code alone.
    pub(super) fn of(code: Code, event: Option<usize>) -> Rejected {
        Rejected { code, event, why: String::new(), is_too_large: false }
    }

    pub(super) fn format(event: usize, why: impl Into<String>) -> Rejected {
        let why = format!(": {}", why.into());
        Rejected { why, ..Rejected::of(Code::InvalidDataFormat, Some(event)) }
    }

    pub(super) fn too_large(event: Option<usize>, why: impl Into<String>) -> Rejected {
        let why = format!(": {}", why.into());
        Rejected { why, is_too_large: true, ..Rejected::of(Code::InvalidDataFormat, event) }
    }

    /// What the sender is answered.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let (_, status, _) = self.code.known();
        let mut body = self.code.body();
        if let Some(event) = self.event {
            body["invalid-event-number"] = event.into();
        }
        if let Some(why) = self.why.strip_prefix(": ") {
            body["detail"] = why.into();
        }
        Answer::json(if self.is_too_large { 413 } else { status }, &body)
    }
}

impl From<TooMuch> for Rejected {
    fn from(why: TooMuch) -> Rejected {
        Rejected::too_large(None, why.to_string())
    }
}

/// All events are stored. `ack` is the number of the acknowledgement that a sender with a channel asks for later.
#[must_use]
pub fn taken(ack: Option<u64>) -> Answer {
    let mut body = Code::Success.body();
    if let Some(ack) = ack {
        body["ackId"] = ack.into();
    }
    Answer::json(200, &body)
}

/// Nothing is stored. Senders send again what is answered from 500 on.
#[must_use]
pub fn refused(trouble: Trouble, why: &str) -> Answer {
    let (code, status) = match trouble {
        Trouble::TokenMissing => (Code::TokenRequired, 401),
        Trouble::TokenScheme => (Code::InvalidAuthorization, 401),
        Trouble::TokenWrong | Trouble::Forbidden => (Code::InvalidToken, 403),
        Trouble::Malformed | Trouble::TooLarge | Trouble::Coding => {
            (Code::InvalidDataFormat, trouble.status())
        }
        // A sender knows this code for both.
        Trouble::Slowed | Trouble::Busy | Trouble::Late => (Code::ServerIsBusy, 503),
        Trouble::Failed => (Code::InternalServerError, 500),
        Trouble::Undecided => (Code::InternalServerError, 504),
    };
    let mut body = code.body();
    body["detail"] = why.into();
    Answer::json(status, &body)
}

/// The answer to `GET /services/collector/health`.
#[must_use]
pub fn health(is_ready: bool) -> Answer {
    if is_ready { Code::Healthy.answer() } else { Code::Unhealthy.answer() }
}
