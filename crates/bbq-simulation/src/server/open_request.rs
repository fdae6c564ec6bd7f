//! A numbered request of HTTP that the server has, and its answer.

use bbq_intake::simulated::{Kept, NumberedRequest};
use bbq_wire::StreamId;

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// All of its records are on disk, or were before.
    Stored,
    /// Records before it are missing.
    Gap {
        /// The number of the first.
        expected: u64,
    },
    /// Its sender may not append to the stream.
    Forbidden,
    /// It is to be sent again later.
    Later,
}

/// A request that is not answered yet.
pub(super) struct OpenRequest {
    pub(super) number: u64,
    pub(super) stream: StreamId,
    pub(super) worker: usize,
    pub(super) place: Place,
    /// It went to another worker once; a second time, it is to be sent again.
    pub(super) has_moved: bool,
}

/// How far it is.
pub(super) enum Place {
    Appending(NumberedRequest),
    Durable(Kept),
}
