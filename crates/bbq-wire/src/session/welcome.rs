//! The welcome: a server's first frame, which says where the client continues and how much the server takes.

use super::frame::{self, Fields, Kind};
use super::{AckLevel, SessionError};

/// The response to a hello. The server sends it once everything that arrived earlier on this stream is durable.
///
/// ```text
///   0   8  last_sequence     the last one known durable; 0 = none
///   8   1  ack_level         as granted: 0 none, 1 received, 2 durable
///   9   1  flags             1 forgotten; a client ignores bits that it does not know
///  10   2  reserved          0; ignored by a client
///  12   4  body_bytes_max    the largest batch body, compressed or not
///  16   4  message_bytes_max the largest message
///  20   1  name_bytes
///  21      name              UTF-8, for display only
///       8  highest           optional, behind the name: the highest number that the server knows of the stream
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The last durable sequence, 0 for none. The client continues with the next one.
    pub last_sequence: u64,
    /// What acknowledgements will mean.
    pub ack: AckLevel,
    /// The server has forgotten streams, and this may be one of them: `last_sequence` does not tell what it has of the stream.
    pub forgotten: bool,
    /// The highest number that is known, which is above `last_sequence` if numbers between are missing; `None` of a server that does not
    /// say.
    pub highest: Option<u64>,
    /// The largest batch body the server takes, compressed or not.
    pub body_bytes_max: u32,
    /// The largest message the server takes.
    pub message_bytes_max: u32,
    /// The server's name for display; escape it for a terminal.
    pub server: String,
}

/// The bit of `flags`.
const FORGOTTEN: u8 = 1;

impl Welcome {
    /// Appends the frame. A name over 255 bytes is cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        frame::encode(Kind::Welcome, out, |out| {
            out.extend_from_slice(&self.last_sequence.to_le_bytes());
            out.extend_from_slice(&[self.ack as u8, u8::from(self.forgotten) * FORGOTTEN, 0, 0]);
            out.extend_from_slice(&self.body_bytes_max.to_le_bytes());
            out.extend_from_slice(&self.message_bytes_max.to_le_bytes());
            frame::put_name(&self.server, out);
            if let Some(highest) = self.highest {
                out.extend_from_slice(&highest.to_le_bytes());
            }
        });
    }

    pub(super) fn decode(payload: &[u8]) -> Result<Welcome, SessionError> {
        let mut fields = Fields::of(Kind::Welcome, payload);
        let last_sequence = fields.u64("last_sequence")?;
        let ack = AckLevel::read(&mut fields, Kind::Welcome)?;
        let forgotten = fields.u8("flags")? & FORGOTTEN != 0;
        fields.u16("reserved")?;
        let body_bytes_max = fields.u32("body_bytes_max")?;
        let message_bytes_max = fields.u32("message_bytes_max")?;
        let name_bytes = fields.u8("name_bytes")?;
        let server = fields.text("name", usize::from(name_bytes))?;
        let highest = fields.optional_u64();
        Ok(Welcome { last_sequence, ack, forgotten, highest, body_bytes_max, message_bytes_max, server })
    }
}
