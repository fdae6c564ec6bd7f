//! The client's end of a session: it takes the server's bytes, and returns welcome, acknowledgements and refusal.

use super::frame::{self, FrameStep, Kind};
use super::{Refusal, SessionError, Welcome, ack};

/// What the input begins with.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientStep {
    /// No complete frame.
    NeedMore {
        /// Bytes from the start of the input without which there will be no other step; at most those of the largest
        /// control frame.
        at_least: usize,
    },
    /// The server's response to the hello: the first frame, and only once.
    Welcome {
        /// What it says.
        welcome: Welcome,
        /// How many bytes of the input it took.
        consumed: usize,
    },
    /// All of the stream up to `sequence` is at the granted level. A number may repeat, and may be lower than an earlier one
    /// when a duplicate is acknowledged again: the highest counts.
    Ack {
        /// The number.
        sequence: u64,
        /// How many bytes of the input it took.
        consumed: usize,
    },
    /// The server ends the session. What was acknowledged before stays acknowledged.
    Refused {
        /// Why.
        refusal: Refusal,
        /// How many bytes of the input it took.
        consumed: usize,
    },
}

/// The state of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    Open,
    Refused,
}

/// Reads one server. Holds no bytes: the caller keeps what was not consumed and hands it in again with more.
#[derive(Clone, Copy, Debug)]
pub struct ClientSession {
    state: State,
}

impl Default for ClientSession {
    fn default() -> Self {
        Self::new()
    }
}

impl ClientSession {
    /// A session that has sent its hello.
    #[must_use]
    pub fn new() -> ClientSession {
        ClientSession { state: State::Greeting }
    }

    /// Reads the frame at the front of `input`, which begins behind all that was consumed.
    ///
    /// # Errors
    /// The server broke the protocol, or is not one: close, count nothing as acknowledged that was not.
    pub fn next(&mut self, input: &[u8]) -> Result<ClientStep, SessionError> {
        if input.starts_with(&crate::batch::MAGIC) {
            return Err(SessionError::Unexpected { found: "a batch", expected: self.expected() });
        }
        let (kind, payload, consumed) = match frame::read(input)? {
            FrameStep::NeedMore { at_least } => return Ok(ClientStep::NeedMore { at_least }),
            FrameStep::Frame { kind, payload, consumed } => (kind, payload, consumed),
        };
        match (kind, self.state) {
            (Kind::Welcome, State::Greeting) => {
                let welcome = Welcome::decode(payload)?;
                self.state = State::Open;
                Ok(ClientStep::Welcome { welcome, consumed })
            }
            (Kind::Ack, State::Open) => Ok(ClientStep::Ack { sequence: ack::decode_ack(payload)?, consumed }),
            (Kind::Refusal, State::Greeting | State::Open) => {
                let refusal = Refusal::decode(payload)?;
                self.state = State::Refused;
                Ok(ClientStep::Refused { refusal, consumed })
            }
            _ => Err(SessionError::Unexpected { found: kind.name(), expected: self.expected() }),
        }
    }

    fn expected(&self) -> &'static str {
        match self.state {
            State::Greeting => "a welcome",
            State::Open => "an ack",
            State::Refused => "the end of the connection",
        }
    }
}
