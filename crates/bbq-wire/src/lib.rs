//! The words that bbq's parts speak to each other: the batch, the session around it, and the text framings of the
//! senders that know nothing of batches.
//!
//! Pure: bytes and values in, values and bytes out.
//!
//! Invariant: nothing here does I/O, reads a clock, or makes a random number.
//! Invariant: no input makes it panic, and none makes it allocate more than the limit the caller gave.

pub mod batch;
pub mod framing;
pub mod limits;
pub mod session;
mod stream;
mod varint;

pub use batch::{Batch, BatchBuilder, BatchError, BatchHeader, Compression, Peer, SourceKind};
pub use session::{AckLevel, Hello, Refusal, RefusalCode, SessionError, Welcome};
pub use stream::{SequenceCheck, StreamId};
