//! The hello: a client's first frame, which names the stream it is going to send.

use super::frame::{self, Fields, Kind};
use super::{AckLevel, SessionError};
use crate::StreamId;

/// What a client begins with.
///
/// ```text
///   0  16  stream
///  16   1  ack_level         0 none, 1 received, 2 durable
///  17   1  flags             0; a bit that is not known is refused, as it asks for what is not understood
///  18   2  reserved          0
///  20   1  name_bytes
///  21      name              UTF-8, for display only
///       8  epoch             optional; grows with each connection of the stream, 0 or absent: not told
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Whose records follow. Every batch of the session is of this stream.
    pub stream: StreamId,
    /// Which acknowledgements it wants.
    pub ack: AckLevel,
    /// Who it is, for people; any 255 bytes a stranger chose, so escape it before it reaches a terminal.
    pub client: String,
    /// Grows with each connection of the stream, so that a hello that is read late is known to be old. 0: not told.
    pub epoch: u64,
}

impl Hello {
    /// Appends the frame. A name over 255 bytes is cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        frame::encode(Kind::Hello, out, |out| {
            out.extend_from_slice(&self.stream.0);
            out.extend_from_slice(&[self.ack as u8, 0, 0, 0]);
            frame::put_name(&self.client, out);
            if self.epoch != 0 {
                out.extend_from_slice(&self.epoch.to_le_bytes());
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
        if flags != 0 {
            return Err(frame::field(Kind::Hello, "flags", u64::from(flags), "0"));
        }
        let reserved = fields.u16("reserved")?;
        if reserved != 0 {
            return Err(frame::field(Kind::Hello, "reserved", u64::from(reserved), "0"));
        }
        let name_bytes = fields.u8("name_bytes")?;
        let client = fields.text("name", usize::from(name_bytes))?;
        let epoch = fields.u64_if_there().unwrap_or(0);
        Ok(Hello { stream, ack, client, epoch })
    }
}
