//! The formats that the parts of bbq exchange: the batch, the session around it, and the text framings of senders that
//! know nothing of batches.
//!
//! It is pure: functions take bytes and values, and return values and bytes.
//!
//! Invariant: nothing here does I/O, reads a clock, or makes a random number.
//! Invariant: no input makes it panic, and no input makes it allocate more than the caller's limit.

pub mod batch;
pub mod framing;
pub mod limits;
pub mod otlp;
pub mod ranges;
pub mod session;
pub mod shown;
mod stream;
mod varint;

pub use batch::{Batch, BatchBuilder, BatchError, BatchHeader, Compression, Peer, SourceKind};
pub use ranges::{Check, Ranges, Span};
pub use session::{AckLevel, Hello, Progress, Refusal, RefusalCode, SessionError, Token, Welcome};
pub use stream::StreamId;
