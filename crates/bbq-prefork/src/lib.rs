//! A family of processes that serves a [`Group`](bbq_listen::Group), and in which no connection dies with a process.
//!
//! The processes have memory of their own, so what goes wrong in one hurts only itself; but they have one table of descriptors
//! (`clone(2)` with `CLONE_FILES`). A connection stays open when the process that accepted it is killed, and the successor
//! on the same seat goes on with it. A small mapping that all share, the ledger, says whose each connection is, and which
//! answer is on its way; how much of that was written the kernel knows.
//!
//! So that a killed process takes nothing with it, a member looks at a request (`MSG_PEEK`), says which answer it begins,
//! writes it, and only then reads the request. The beginning of a request is kept in the ledger until its end comes. Whoever finds an answer begun makes it again from the same request and the same
//! stamp, and writes what is missing of it: to the peer no answer is missing, none comes twice, and none is torn. An answer may
//! be *made* twice: requests that change something need more than this.
//!
//! ```text
//!   master    epoll: a pidfd per child, a timer, with `handoff` the listener        no other thread
//!   child     epoll of its seat: its listeners, its connections, stop, master       accept, peek, begin, write, read, end
//! ```
//!
//! All processes together have one limit of descriptors. A child opens nothing but connections: what it opened besides would
//! stay open when it is killed.
//!
//! Invariant: a child is waited for before its connections are touched, and its successor begins after that.

#![forbid(unsafe_code)]

#[cfg(feature = "tokio")]
mod async_family;
mod common;
mod connection;
mod epolls;
mod family;
mod handoff;
mod ledger;
mod member;
mod rescue;

#[cfg(feature = "tokio")]
pub use async_family::AsyncFamily;
pub use connection::{Connection, Looked, PendingAnswer, Turn, UnfinishedAnswer};
pub use family::{Family, FamilyEvent};
pub use ledger::KEPT_BYTES_MAX;
pub use member::Member;
