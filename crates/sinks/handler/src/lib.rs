//! A handler in the program that the server runs in: gets the messages as calls, on threads of its own.
//!
//! ```text
//! driver -> submit -> desk of the lane's thread -> batch -> Handler::handle
//!        <- settle <-            |                             |
//!                                 <- done, refused, or again <-
//! ```
//!
//! Each lane belongs to one thread of the pool, so what is in order in a lane is handled in order.
//!
//! Invariant: the sink waits for no handler; a handler that hangs holds up the lanes of its thread alone.
//! Invariant: after a refusal a thread goes on only when the dead letter and the cursor behind it are durable. So a position
//! that the handler keeps never passes a refused message that is nowhere.

#![forbid(unsafe_code)]

mod batch;
mod desk;
mod error;
mod handling;
mod position;
mod sink;
mod slot;
mod target;
mod thread;

pub use batch::{Message, Messages};
pub use error::HandlerError;
pub use handling::Handler;
pub use position::{ParsePositionError, Position};
pub use target::sink_spec;
