//! A worker: one thread with its own event loop, its own sockets and its own lane. Workers share nothing on the path of a
//! message.
//!
//! ```text
//! accept ------> connection --frames--> batcher --+--> lane --durable--> waiters --> sessions, tickets
//! datagrams ------------------frames--> batcher --+
//! http ----------------------records--> batcher --+
//! session, numbered request -------------batches--+       (may come from another worker: `handover`)
//! reader of files -----------------------batches--+       (comes from its own thread: `read`)
//! ```
//!
//! A message costs no allocation, no lock and no clock reading: those costs are paid once per read or batch. A connection that
//! waits holds no buffer: text is read through the worker's buffer, and a session borrows a buffer while it receives a batch.
//!
//! Invariant: nothing here blocks, except for the pause of `coalescing`, which delays no acknowledgement.

mod accept;
mod arrival;
mod buffers;
#[cfg(test)]
mod confirm;
mod connections;
mod datagrams;
mod disk;
mod fluent;
mod gelf;
mod handed;
mod handover;
mod held_connections;
mod http;
mod intake;
mod limits;
mod liveness;
mod local_listener;
mod memory_budget;
pub(crate) mod numbered;
mod paused;
pub(crate) mod read;
mod repeat;
mod run;
mod scratch;
pub(crate) mod session;
mod settling;
mod setup;
mod sources;
mod stopping;
pub(crate) mod stream;
mod text;
mod ticket;
mod undurable;
mod view;
pub(crate) mod waiters;

pub use connections::budget::ConnectionBudget;
pub use gelf::GelfChunks;
pub use handover::{READERS_MAX, SessionInbox, WorkerMesh};
#[cfg(fuzzing)]
pub(crate) use http::{fuzzed_body, fuzzed_numbers, fuzzed_prefix};
pub use limits::{ConfiguredLimits, IntakeLimits};
pub use paused::{PausedConnection, Unfinished};
pub use read::{ReaderLink, ReaderStore};
pub use scratch::Scratch;
pub use setup::{ListenerSetup, Worker};
pub use stopping::Command;
pub use stream::Stream;
pub use undurable::Undurable;
pub use view::WorkerView;
