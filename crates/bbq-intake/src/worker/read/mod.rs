//! What readers of files hand over: a worker appends it to its lane, and tells the reader.
//!
//! ```text
//! reader --FileBatch--> ReaderStore --HandedRead--> inbox of a worker --> home of the stream here? --> its lane --> Waiters --+
//!   ^                                                   ^                 home elsewhere? --+                                 |
//!   |                                                   +-----------------------------------+                                 |
//!   +---- Settled <---- ReaderLink <------------------ Appended, Later, Failed; Durable, Failed <----------------------------+
//! ```
//!
//! A batch without room waits at its worker. What readers have there is bounded in batches and in bytes, so a full lane makes readers rest,
//! and blocks neither them nor others.
//!
//! Not here: how files are found, read and cut (bbq-read).
//!
//! Invariant: no file of positions is needed. What a worker did not append before it ended is read again, from the position that the table
//! of streams knows.

mod append;
mod handed;
mod link;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use append::serve_handed;
pub(crate) use handed::{HANDED_MAX, HandedRead};
pub use link::ReaderLink;
pub(crate) use link::ToldBatch;
pub use store::ReaderStore;
