//! A bbq session as steps over bytes, events and time: what to append, what to send back, when to refuse, when to hand the session
//! to another worker, and when it is over.
//!
//! ```text
//! bytes, stop, end of the input --> SessionState --batches--> lane --durable--> Waiters --> Replies --> Connection
//! ```
//!
//! `task` and its neighbours add sockets, tasks, buffers, time-outs and the limit of memory; the simulation (bbq-simulation) takes
//! the same steps on a network of its own.
//!
//! Invariant: the steps in `state`, `owner`, `relay`, `replies` and `context` wait for nothing, read no clock and make no system
//! call.

mod context;
pub(crate) mod inbox;
mod lent;
mod owner;
pub(crate) mod quiet;
mod relay;
mod replies;
pub(crate) mod rounds;
pub(crate) mod socket;
mod state;
pub(crate) mod task;
pub(crate) mod tasks;

pub use context::SessionContext;
pub use owner::{Established, StreamOwner};
pub use replies::{Connection, Replies, Sent};
pub use state::{HandedHello, Input, SessionState, Step, SuspendedSession};
