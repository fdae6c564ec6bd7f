//! A pool of processes that serves a [`Group`](bbq_listen::Group). No connection dies with a process that is killed.
//!
//! Each process has its own memory, so a fault in one process hurts no other. All processes share one table of descriptors
//! (`clone(2)` with `CLONE_FILES`), so a connection stays open when the process that accepted it is killed, and the successor of
//! that process takes it over. The ledger, a small mapping that all processes share, says which process owns each connection,
//! and which response is being written; the kernel knows how much of that response was written.
//!
//! A child peeks at a request without reading it (`MSG_PEEK`), notes in the ledger which response it begins, writes the response,
//! and only then reads the request. The beginning of an incomplete request is kept in the ledger until the rest of it comes. A
//! successor that finds an unfinished response makes the same response again, from the same request and the same stamp, and writes
//! the part of it that is missing. So the peer gets every response whole, and once. A response may be *made* twice: requests that
//! change something need more than this.
//!
//! ```text
//!   master    epoll: a pidfd per child, timers, the listeners                       no other thread
//!   child     epoll of its worker: its listeners, its connections, stop, master       accept, peek, begin, write, read, end
//! ```
//!
//! A child that is blocked in its handler, stopped by a signal, or not scheduled delays no connection but the one that it is
//! handling. Each child writes a heartbeat into the ledger when it wakes up and when it falls asleep. The master looks at the heartbeats
//! every 8 ms while a child runs or something waits, and when something arrives otherwise. The other children take what waits for a
//! child that does not come around, with every distribution, usually within 16 ms: new connections, and requests on connections that
//! the child has kept. A child counts as one that does not come around
//! - if it is stopped (SIGSTOP), from the next look on;
//! - if it has been running for 6 ms without coming back to its epoll; after 30 ms it is reported;
//! - if it sleeps, and for 30 ms does not take what waits for it.
//!
//! The master does so in [`PreforkPool::handle_events`]: call that in time. So two calls of a handler for one connection may be made by
//! two children, as after the death of one.
//!
//! All processes together have one limit of descriptors. A child opens nothing but connections: anything else would stay open
//! after the child is killed.
//!
//! A process that cannot be started, or ends before it serves, is started again after a delay. A pool that is stopped or dropped
//! closes all its connections: what idles at once, the others when their responses are written.
//!
//! Invariant: a child is waited for before its connections are touched, and its successor begins after that.

#![deny(unsafe_code)]
// docs.rs shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "tokio")]
mod async_pool;
mod child;
mod connection;
mod epolls;
mod event;
mod handoff;
mod ledger;
mod moves;
mod numbers;
mod pool;
mod rescue;
mod shared;
mod stalls;
mod starts;
mod turns;
mod worker_process;

#[cfg(feature = "tokio")]
pub use async_pool::AsyncPreforkPool;
pub use child::Child;
pub use connection::{Connection, Outcome, PeekedInput, PendingResponse, UnfinishedResponse};
pub use event::{PoolEvent, WorkerState};
pub use ledger::KEPT_BYTES_MAX;
pub use pool::PreforkPool;

/// Compiles the example of the README.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../README.md")]
struct ReadmeDocTests;
