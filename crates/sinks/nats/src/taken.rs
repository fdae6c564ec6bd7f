//! What is taken from the groups to be published together.

use bbq_sink::{Outcomes, OutgoingGroups, Positions, Rejection};

use super::message::{Encoder, Message};

/// The limits of what is taken at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) messages: usize,
    /// Unless one message is larger.
    pub(super) bytes: usize,
    /// A larger message is rejected.
    pub(super) payload: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) messages: Vec<Message>,
    pub(super) bytes: usize,
    /// Also of records without a message.
    pub(super) outcomes: Outcomes,
}

/// A limit is reached.
struct Full;

impl Taken {
    /// Takes messages, as far as the limits allow, and moves `positions` behind them.
    pub(super) fn take(
        groups: &mut OutgoingGroups,
        encoder: &mut Encoder,
        limits: Limits,
        positions: &mut Positions,
    ) -> Taken {
        let mut taken = Taken::default();
        let Taken { messages, bytes, outcomes } = &mut taken;
        let _full = groups.take(encoder, positions, outcomes, |message, known| {
            let message_bytes = message.payload.len();
            let is_too_many = !messages.is_empty() && *bytes + message_bytes > limits.bytes;
            if messages.len() >= limits.messages || *bytes >= limits.bytes || is_too_many {
                return Err(Full);
            }
            if message_bytes > limits.payload {
                let why = too_large(message_bytes, limits.payload);
                return Ok(Some(Rejection { why, has_letter: known.has_letters }));
            }
            if !known.is_stored {
                *bytes += message_bytes;
                messages.push(message);
            }
            Ok(None)
        });
        taken
    }
}

fn too_large(bytes: usize, max: usize) -> String {
    format!(
        "the message has {bytes} bytes, and the NATS server takes {max} beside the headers; raise its max_payload"
    )
}
