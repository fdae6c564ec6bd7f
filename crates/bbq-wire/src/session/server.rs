//! The server's end of a session: it takes the client's bytes, and returns hello and batches.

use super::frame::{self, FrameStep, Kind};
use super::{Hello, Refusal, RefusalCode, SessionError};
use crate::batch::BatchLimits;
use crate::limits::{BATCH_HEADER_BYTES, CONTROL_HEADER_BYTES};
use crate::{Batch, BatchError, BatchHeader, StreamId};

/// The first item of the input.
#[derive(Debug)]
pub enum ServerStep<'a> {
    /// No complete item.
    NeedMore {
        /// Bytes from the start of the input without which there will be no other step; at least one more than there
        /// are, at most those of the largest batch that is allowed.
        at_least: usize,
    },
    /// The client's hello: the first item, and only once.
    Hello {
        /// The decoded hello.
        hello: Hello,
        /// Bytes of the input that it took.
        consumed: usize,
    },
    /// A batch of the hello's stream, or of any if it relays, whose header is within the limits. [`crate::Batch::verify`] checks its checksum and
    /// records.
    Batch {
        /// Header and body.
        bytes: &'a [u8],
        /// The header.
        header: BatchHeader,
        /// Bytes of the input it took: those of `bytes`.
        consumed: usize,
    },
}

/// Reads the items of one client. It keeps no bytes: the caller passes what was not consumed again, with more.
#[derive(Clone, Copy, Debug)]
pub struct ServerSession {
    body_bytes_max: u32,
    /// The stream of the hello; `None` before it.
    stream: Option<StreamId>,
    relays: bool,
}

impl ServerSession {
    /// A session that waits for its hello. Only the limit of the body is checked here.
    #[must_use]
    pub fn new(limits: BatchLimits) -> ServerSession {
        ServerSession { body_bytes_max: limits.body_bytes_max, stream: None, relays: false }
    }

    /// Reads the item at the front of `input`, which begins behind all that was consumed. Allocates for a hello and
    /// for a refusal only.
    ///
    /// # Errors
    /// The refusal to send before closing. Nothing behind this input can be read.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<ServerStep<'a>, Refusal> {
        match input.first_chunk::<4>() {
            None => Ok(ServerStep::NeedMore { at_least: CONTROL_HEADER_BYTES }),
            Some(magic) if *magic == crate::batch::MAGIC => self.batch(input),
            Some(_) => Ok(self.control(input)?),
        }
    }

    fn batch<'a>(&self, input: &'a [u8]) -> Result<ServerStep<'a>, Refusal> {
        let Some(stream) = self.stream else {
            return Err(SessionError::HelloExpected { found: "a batch" }.into());
        };
        let Some(header) = Batch::peek(input)? else {
            return Ok(ServerStep::NeedMore { at_least: BATCH_HEADER_BYTES });
        };
        let largest = header.body_bytes.max(header.raw_bytes);
        if largest > self.body_bytes_max {
            return Err(BatchError::TooLarge { bytes: largest, limit: self.body_bytes_max }.into());
        }
        // Acknowledgements have no stream id, so all batches must be of one stream, unless they are counted.
        if header.stream != stream && !self.relays {
            let text = format!("batch of stream {} in a session of stream {stream}", header.stream);
            return Err(Refusal::new(RefusalCode::Malformed, text));
        }
        let consumed = header.total_bytes();
        Ok(match input.get(..consumed) {
            Some(bytes) => ServerStep::Batch { bytes, header, consumed },
            None => ServerStep::NeedMore { at_least: consumed },
        })
    }

    fn control<'a>(&mut self, input: &'a [u8]) -> Result<ServerStep<'a>, SessionError> {
        let (kind, payload, consumed) = match frame::read(input)? {
            FrameStep::NeedMore { at_least } => return Ok(ServerStep::NeedMore { at_least }),
            FrameStep::Frame { kind, payload, consumed } => (kind, payload, consumed),
        };
        match (kind, self.stream) {
            (Kind::Hello, None) => {
                let hello = Hello::decode(payload)?;
                self.stream = Some(hello.stream);
                self.relays = hello.relays;
                Ok(ServerStep::Hello { hello, consumed })
            }
            (kind, None) => Err(SessionError::HelloExpected { found: kind.name() }),
            (Kind::Hello, Some(_)) => {
                Err(SessionError::Unexpected { found: "a second hello", expected: "a batch" })
            }
            (kind, Some(_)) => Err(SessionError::Unexpected { found: kind.name(), expected: "a batch" }),
        }
    }
}
