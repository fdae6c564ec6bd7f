//! Delivers what is in the queue to servers.
//!
//! ```text
//! thread -> failover -> connection -> session     which server, what is said to it, what it says
//!       \-> stream                                the socket
//! ```
//!
//! A destination is the servers that share one progress: all of them with [`crate::Delivery::Any`], one each with
//! [`crate::Delivery::All`]. Each destination has a thread, which has the sockets and the waiting. The failover, the connection and
//! the session are steps without them, so that a simulation takes the same steps.

pub(crate) mod connection;
pub(crate) mod destination;
pub(crate) mod error;
pub(crate) mod failover;
mod rotation;
pub(crate) mod session;
mod stream;
pub(crate) mod thread;
