//! How much a request may bring.

use bbq_wire::limits::BATCH_BODY_BYTES_MAX;

/// What a batch has beside its messages and their fields: its peers, and the keys of its attributes.
const RESERVED_BYTES: usize = 4096;

/// Messages of a request, or items of which some are no messages: a worker reads a message in up to half a microsecond, and does nothing else
/// meanwhile. Senders have some thousands.
pub(crate) const MESSAGES_MAX: usize = 131_072;

/// The limits of a request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of a message.
    pub message_bytes_max: usize,
    /// Of all messages with their fields, as a batch has them.
    pub bytes_max: usize,
}

impl Limits {
    /// The messages of a request go into one batch.
    #[must_use]
    pub fn of_a_batch(message_bytes_max: usize) -> Limits {
        Limits { message_bytes_max, bytes_max: BATCH_BODY_BYTES_MAX as usize - RESERVED_BYTES }
    }
}
