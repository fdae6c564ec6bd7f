//! Streams that are requests: some senders have no numbers, but an equal request of theirs is a repeat. Its digest is the stream, and its
//! messages have the numbers from 1, so a repeat is known.
//!
//! Such a stream never goes on. So the table forgets it before others, and to forget it is nothing to report.

use bbq_wire::StreamId;

/// How the id of such a stream begins. A client that draws its id by lot has this beginning once in four billion times, and is then
/// forgotten before others.
const MARK: [u8; 4] = [0xbb, 0x71, 0x72, 0x65];

/// The stream of a request with this digest, of which 12 bytes count.
#[must_use]
pub fn stream_of_request(digest: &[u8]) -> StreamId {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&MARK);
    id[4..].iter_mut().zip(digest).for_each(|(byte, digested)| *byte = *digested);
    StreamId(id)
}

/// Whether a stream is a request.
pub(crate) fn is_of_request(id: StreamId) -> bool {
    id.0.starts_with(&MARK)
}
