//! The hello: a client's first frame, which names the stream it is going to send.

use super::frame::{self, Fields, Kind};
use super::{AckLevel, SessionError, Token};
use crate::StreamId;

/// What a client begins with.
///
/// ```text
///   0  16  stream
///  16   1  ack_level         0 none, 1 received, 2 durable, 3 replicated
///  17   1  flags             1 relays; a bit that is not known is refused, as it asks for what is not understood
///  18   2  reserved          0
///  20   1  name_bytes
///  21      name              UTF-8, for display only
///       8  epoch             optional; grows with each connection of the stream, 0 or absent: not told
///       2  token_bytes       optional, behind an epoch; 0 or absent: no token
///          token             visible ASCII
///       8  done              optional, behind the token's length or the token
///       1  kept              behind `done`: 1 if the stream is kept over restarts, else 0
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Whose records follow. Every batch of the session is of this stream, unless it relays.
    pub stream: StreamId,
    /// Which acknowledgements it wants.
    pub ack: AckLevel,
    /// Who it is, for people; any 255 bytes a stranger chose, so escape it before it reaches a terminal.
    pub client: String,
    /// Grows with each connection of the stream, so that a hello that is read late is known to be old. 0: not told.
    pub epoch: u64,
    /// The client passes on batches of any stream. It numbers the batches, not the records: welcome and acknowledgements count
    /// batches of `stream`.
    pub relays: bool,
    /// What shows that it may send, for a server that asks for it.
    pub token: Option<Token>,
    /// Where the stream is; `None` of a client that does not say, and of one that relays.
    pub progress: Option<Progress>,
}

/// Where the sender of a stream is. A client that says it also says in a batch which numbers before it will never come
/// ([`crate::Batch::given_up`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Numbers up to this one are not sent again: some server has acknowledged them, or the client has given them up.
    pub done: u64,
    /// The stream goes on after a restart of the client.
    pub is_kept: bool,
}

/// The bit of `flags`.
const RELAYS: u8 = 1;

impl Hello {
    /// Appends the frame. A name over 255 bytes is cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        frame::encode(Kind::Hello, out, |out| {
            out.extend_from_slice(&self.stream.0);
            out.extend_from_slice(&[self.ack as u8, u8::from(self.relays) * RELAYS, 0, 0]);
            frame::put_name(&self.client, out);
            if self.epoch != 0 || self.token.is_some() || self.progress.is_some() {
                out.extend_from_slice(&self.epoch.to_le_bytes());
            }
            if self.token.is_some() || self.progress.is_some() {
                let token = self.token.as_ref().map_or("", Token::expose).as_bytes();
                // At most `TOKEN_BYTES_MAX`.
                out.extend_from_slice(&(token.len() as u16).to_le_bytes());
                out.extend_from_slice(token);
            }
            if let Some(Progress { done, is_kept }) = self.progress {
                out.extend_from_slice(&done.to_le_bytes());
                out.push(u8::from(is_kept));
            }
        });
    }

    /// Whether bytes that begin a connection are a hello's, for a listener that expects something else. Told by its header,
    /// which is no text.
    #[must_use]
    pub fn begins(input: &[u8]) -> bool {
        frame::kind_at(input) == Some(Kind::Hello)
    }

    pub(super) fn decode(payload: &[u8]) -> Result<Hello, SessionError> {
        let mut fields = Fields::of(Kind::Hello, payload);
        let stream = StreamId(fields.array("stream")?);
        let ack = AckLevel::read(&mut fields, Kind::Hello)?;
        let flags = fields.u8("flags")?;
        if flags & !RELAYS != 0 {
            return Err(frame::field(Kind::Hello, "flags", u64::from(flags), "0, or 1 (relays)"));
        }
        let reserved = fields.u16("reserved")?;
        if reserved != 0 {
            return Err(frame::field(Kind::Hello, "reserved", u64::from(reserved), "0"));
        }
        let name_bytes = fields.u8("name_bytes")?;
        let client = fields.text("name", usize::from(name_bytes))?;
        let epoch = fields.optional_u64();
        let token_bytes = epoch.and_then(|_| fields.optional_u16());
        let token = match token_bytes {
            None | Some(0) => None,
            Some(bytes) => {
                let text = fields.bytes("token", usize::from(bytes))?;
                let token = std::str::from_utf8(text).ok().and_then(Token::new);
                Some(token.ok_or(SessionError::Token)?)
            }
        };
        let done = token_bytes.and_then(|_| fields.optional_u64());
        let progress = done
            .map(|done| Progress { done, is_kept: fields.optional_u8().is_some_and(|kept| kept & 1 != 0) });
        let relays = flags & RELAYS != 0;
        Ok(Hello { stream, ack, client, epoch: epoch.unwrap_or(0), relays, token, progress })
    }
}
