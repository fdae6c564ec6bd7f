//! Acknowledgements: which kind a client asks for, and the frame that carries one.

use super::SessionError;
use super::frame::{Fields, Kind, field, seal};
use crate::limits::CONTROL_HEADER_BYTES;

/// What an acknowledgement means. The order is that of the promise: a server may grant less than was asked, never
/// pretend more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum AckLevel {
    /// None are sent.
    None = 0,
    /// The server has it in memory and has checked it.
    Received = 1,
    /// It is on disk.
    #[default]
    Durable = 2,
    /// It is on disk here, and on the disks of the servers that it is passed on to.
    Replicated = 3,
}

impl AckLevel {
    pub(super) fn read(fields: &mut Fields<'_>, kind: Kind) -> Result<AckLevel, SessionError> {
        match fields.u8("ack_level")? {
            0 => Ok(AckLevel::None),
            1 => Ok(AckLevel::Received),
            2 => Ok(AckLevel::Durable),
            3 => Ok(AckLevel::Replicated),
            other => {
                let valid = "0 (none), 1 (received), 2 (durable) or 3 (replicated)";
                Err(field(kind, "ack_level", u64::from(other), valid))
            }
        }
    }
}

/// Bytes of an ack frame.
pub const ACK_FRAME_BYTES: usize = CONTROL_HEADER_BYTES + 8;

/// The frame that says: all of the stream up to `sequence` is at the granted level.
///
/// ```text
///   0   8  sequence
/// ```
#[must_use]
pub fn encode_ack(sequence: u64) -> [u8; ACK_FRAME_BYTES] {
    let mut frame = [0; ACK_FRAME_BYTES];
    frame[CONTROL_HEADER_BYTES..].copy_from_slice(&sequence.to_le_bytes());
    seal(Kind::Ack, &mut frame);
    frame
}

pub(super) fn decode_ack(payload: &[u8]) -> Result<u64, SessionError> {
    Fields::of(Kind::Ack, payload).u64("sequence")
}
