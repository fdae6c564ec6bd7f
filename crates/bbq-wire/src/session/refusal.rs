//! The refusal: the last frame of a server, which says why the session ends.

use std::fmt;

use super::SessionError;
use super::frame::{self, Fields, Kind};
use crate::limits::REFUSAL_TEXT_BYTES_MAX;
use crate::{BatchError, Span, StreamId};

/// The code of a refusal. Numbers on the wire are append-only; an unknown code keeps its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalCode {
    /// 1: a version, frame kind or flag that the server does not know.
    Version,
    /// 2: malformed or truncated input.
    Malformed,
    /// 3: a checksum does not fit its bytes.
    Checksum,
    /// 4: a message is over the server's limit.
    MessageTooLarge,
    /// 5: a batch is over the server's limit.
    BatchTooLarge,
    /// 6: a batch begins with known records and ends with new ones.
    Sequence,
    /// 7: the server's memory or connection budget is used up.
    Busy,
    /// 8: the server's disk failed; nothing can be acknowledged.
    SpoolFailed,
    /// 9: the server is shutting down.
    ShuttingDown,
    /// 10: a newer connection sends this stream.
    TakenOver,
    /// 11: something other than a hello came first.
    HelloExpected,
    /// 12: the client may not send here: its token is missing or not valid, or the stream belongs to somebody else.
    NotAllowed,
    /// A number of a later version.
    Unknown(u16),
}

/// Number, code, whether a retry may succeed, and a name for display.
const CODES: [(u16, RefusalCode, bool, &str); 12] = [
    (1, RefusalCode::Version, false, "version not known"),
    (2, RefusalCode::Malformed, false, "malformed"),
    (3, RefusalCode::Checksum, false, "checksum"),
    (4, RefusalCode::MessageTooLarge, false, "message too large"),
    (5, RefusalCode::BatchTooLarge, false, "batch too large"),
    (6, RefusalCode::Sequence, false, "sequence overlap"),
    (7, RefusalCode::Busy, true, "busy"),
    (8, RefusalCode::SpoolFailed, true, "spool failed"),
    (9, RefusalCode::ShuttingDown, true, "shutting down"),
    // No retry: two connections would take the stream from each other forever.
    (10, RefusalCode::TakenOver, false, "taken over"),
    (11, RefusalCode::HelloExpected, false, "hello expected"),
    (12, RefusalCode::NotAllowed, false, "not allowed"),
];

impl RefusalCode {
    /// The code of a number.
    #[must_use]
    pub fn of(number: u16) -> RefusalCode {
        CODES.iter().find(|row| row.0 == number).map_or(RefusalCode::Unknown(number), |row| row.1)
    }

    /// Its number on the wire.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            RefusalCode::Unknown(number) => number,
            known => CODES.iter().find(|row| row.1 == known).map_or(0, |row| row.0),
        }
    }

    /// Whether the same bytes may succeed later, on another connection.
    #[must_use]
    pub fn is_temporary(self) -> bool {
        CODES.iter().any(|row| row.1 == self && row.2)
    }
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match CODES.iter().find(|row| row.1 == *self) {
            Some(row) => f.write_str(row.3),
            None => write!(f, "code {}", self.number()),
        }
    }
}

/// Why the session ends.
///
/// ```text
///   0   2  code
///   2   1  retry             0 not with the same bytes, 1 later
///   3   1  reserved          0; not judged by a client
///   4   2  text_bytes
///   6      text              UTF-8, for people
///      16  stream            optional, behind the text, with both numbers behind it
///       8  first
///       8  last
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// The code.
    pub code: RefusalCode,
    /// Whether the same bytes may succeed later.
    pub retry: bool,
    /// The cause in words, with its numbers.
    pub text: String,
    /// The numbers that are refused, while others can be taken; `None` of a server that does not say.
    pub unsure: Option<UnsureNumbers>,
}

/// Numbers of a stream of which a server cannot tell whether it knows them ([`crate::ranges::Check::Unsure`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsureNumbers {
    /// Whose they are.
    pub stream: StreamId,
    /// Which they are.
    pub numbers: Span,
}

impl Refusal {
    /// A refusal that asks for a retry as its code does.
    #[must_use]
    pub fn new(code: RefusalCode, text: impl Into<String>) -> Refusal {
        Refusal { code, retry: code.is_temporary(), text: text.into(), unsure: None }
    }

    /// The same refusal, which concerns these numbers alone.
    #[must_use]
    pub fn of_numbers(self, unsure: Option<UnsureNumbers>) -> Refusal {
        Refusal { unsure, ..self }
    }

    /// Appends the frame. A text over 1,024 bytes is cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let text = frame::cut_text(&self.text, REFUSAL_TEXT_BYTES_MAX);
        frame::encode(Kind::Refusal, out, |out| {
            out.extend_from_slice(&self.code.number().to_le_bytes());
            out.extend_from_slice(&[u8::from(self.retry), 0]);
            out.extend_from_slice(&(text.len() as u16).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
            if let Some(UnsureNumbers { stream, numbers }) = self.unsure {
                out.extend_from_slice(&stream.0);
                out.extend_from_slice(&numbers.first.to_le_bytes());
                out.extend_from_slice(&numbers.last.to_le_bytes());
            }
        });
    }

    pub(super) fn decode(payload: &[u8]) -> Result<Refusal, SessionError> {
        let mut fields = Fields::of(Kind::Refusal, payload);
        let code = RefusalCode::of(fields.u16("code")?);
        let retry = fields.u8("retry")? != 0;
        fields.u8("reserved")?;
        let text_bytes = fields.u16("text_bytes")?;
        let text = fields.text("text", usize::from(text_bytes))?;
        Ok(Refusal { code, retry, text, unsure: UnsureNumbers::decode(&mut fields) })
    }
}

impl UnsureNumbers {
    fn decode(fields: &mut Fields<'_>) -> Option<UnsureNumbers> {
        let stream = StreamId(fields.array("stream").ok()?);
        let (first, last) = (fields.optional_u64()?, fields.optional_u64()?);
        (0 < first && first <= last).then_some(UnsureNumbers { stream, numbers: Span { first, last } })
    }
}

impl From<BatchError> for Refusal {
    fn from(error: BatchError) -> Refusal {
        let code = match error {
            BatchError::Version { .. } => RefusalCode::Version,
            BatchError::Checksum { .. } => RefusalCode::Checksum,
            BatchError::MessageTooLarge { .. } => RefusalCode::MessageTooLarge,
            BatchError::TooLarge { .. } => RefusalCode::BatchTooLarge,
            BatchError::Magic { .. }
            | BatchError::Field { .. }
            | BatchError::Truncated { .. }
            | BatchError::Compression { .. }
            | BatchError::Records { .. }
            | BatchError::Attributes => RefusalCode::Malformed,
        };
        Refusal::new(code, error.to_string())
    }
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Refusal {
        let code = match error {
            SessionError::Version { .. }
            | SessionError::Kind { .. }
            | SessionError::Field { field: "flags", .. } => RefusalCode::Version,
            SessionError::Checksum { .. } => RefusalCode::Checksum,
            SessionError::HelloExpected { .. } => RefusalCode::HelloExpected,
            SessionError::Magic { .. }
            | SessionError::PayloadTooLarge { .. }
            | SessionError::Short { .. }
            | SessionError::Field { .. }
            | SessionError::Token
            | SessionError::Unexpected { .. } => RefusalCode::Malformed,
        };
        Refusal::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClientSession, ClientStep};
    use super::*;

    fn decoded(refusal: &Refusal) -> Refusal {
        let mut frame = Vec::new();
        refusal.encode(&mut frame);
        match ClientSession::new().next(&frame) {
            Ok(ClientStep::Refused { refusal, consumed }) if consumed == frame.len() => refusal,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_numbers_that_are_refused_arrive_and_numbers_that_are_none_do_not() {
        let plain = Refusal::new(RefusalCode::Busy, "later");
        assert_eq!(decoded(&plain), plain);
        let of = |first, last| {
            let numbers = UnsureNumbers { stream: StreamId([7; 16]), numbers: Span { first, last } };
            plain.clone().of_numbers(Some(numbers))
        };
        assert_eq!(decoded(&of(3, 9)), of(3, 9));
        assert_eq!(decoded(&of(9, 3)), plain);
        assert_eq!(decoded(&of(0, 3)), plain);
    }
}
