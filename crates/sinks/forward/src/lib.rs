//! `bbq://HOST:PORT`, `bbq+tls:` and `bbq+unix:` pass messages on to another bbq server: batches as they came, with the stream and the numbers that the
//! first sender gave them, and with the time and the listener of the first server. So each message arrives once, over any number
//! of servers, and the messages of one stream arrive in order.
//!
//! ```text
//! driver -> submit -> groups -> Link (a task on the sink's thread) -> settled -> settle -> driver
//! ```
//!
//! `link` has the sockets of the session with the next server, `connection` carries it, `exchange` is one connection as steps over bytes,
//! `attempts` is what follows from its end, `outgoing` is a group of messages, `rotation` chooses among several servers, `links` is what
//! all sessions share, `target` is the SPEC. The other end is `worker/session/relay.rs` of the next server.
//!
//! Invariant: a group is settled only when the next server has all of it on its disk, or refuses the rest for good.

#![forbid(unsafe_code)]

mod address;
mod attempts;
mod connection;
mod exchange;
mod frames;
mod link;
mod links;
mod next_servers;
mod outgoing;
mod outstanding;
mod rotation;
mod stepped;
mod target;

pub use stepped::{LinkNetwork, simulated_link};
pub use target::{FORWARD, FORWARD_TLS, FORWARD_UNIX};
