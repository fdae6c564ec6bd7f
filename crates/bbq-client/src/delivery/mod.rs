//! Delivers the records in the queue to servers.
//!
//! ```text
//! thread -> failover -> connection -> session     which server, what is sent to it, what it sends
//!       \-> stream -> received, tls               the socket
//! ```
//!
//! A destination is the servers that share one progress: all of them with [`crate::Delivery::Any`], one each with
//! [`crate::Delivery::All`]. Each destination has a thread, which owns the sockets and does the waiting. Failover, connection and
//! session have no sockets and do not wait, so that the simulation runs the same code.

pub(crate) mod connection;
pub(crate) mod destination;
pub(crate) mod error;
pub(crate) mod failover;
mod received;
mod rotation;
pub(crate) mod session;
mod stream;
pub(crate) mod thread;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(not(feature = "tls"))]
#[path = "without_tls.rs"]
pub(crate) mod tls;
