//! A bbq session as steps over bytes, events and time: what to append, what to send back, when to refuse, when another worker
//! goes on, and when it is over.
//!
//! ```text
//! bytes, stop, end of the input --> SessionState --batches--> lane --durable--> Waiters --> Replies --> Connection
//! ```
//!
//! Not here: sockets, tasks, buffers, time-outs and the memory of all sessions together. Those are `task`'s and its
//! neighbours'; the simulation (bbq-simulation) takes the same steps on a network of its own.
//!
//! Invariant: `state`, `owner`, `replies` and `context` wait for nothing, read no clock and make no system call.

mod context;
pub(crate) mod handover;
pub(crate) mod inbox;
mod owner;
pub(crate) mod quiet;
mod replies;
pub(crate) mod rounds;
pub(crate) mod socket;
mod state;
pub(crate) mod task;
pub(crate) mod tasks;

pub use context::SessionContext;
pub use owner::{Standing, StreamOwner};
pub use replies::{Connection, Replies, Sent};
pub use state::{HandedHello, Input, Left, SessionState, Step};
