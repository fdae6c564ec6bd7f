//! `bbq://HOST:PORT`, `bbq+tls:` and `bbq+unix:` pass messages on to another bbq server: batches as they came, with the stream and the numbers that the
//! first sender gave them, and with the time and the listener of the first server. So each message arrives once, over any number
//! of servers, and the messages of one stream arrive in order.
//!
//! ```text
//! driver -> submit -> groups -> Link (a task on the sink's thread) -> settled -> settle -> driver
//! ```
//!
//! `link` has the sockets of the session with the next server, `connection` carries it, `exchange` is one connection as steps over bytes,
//! `attempts` is what follows from its end, `outgoing` is a group of messages, `output` the bytes that are written next, `held` is what the next server does not take for now,
//! `patience` how long it may say nothing, `rotation` chooses among several servers and `addresses` among those of a name, `links` is
//! what all sessions share, `target` is the SPEC. The other end is `worker/session/relay.rs` of the next server.
//!
//! Invariant: a group is settled only when the next server has all of it on its disk, or refuses the rest for good.

#![forbid(unsafe_code)]

mod address;
mod addresses;
mod attempts;
mod connection;
mod exchange;
mod frames;
mod held;
mod link;
mod links;
mod next_servers;
mod outgoing;
mod output;
mod outstanding;
mod patience;
mod rotation;
mod stepped;
mod target;

pub use stepped::{LinkNetwork, simulated_link};
pub use target::{FORWARD, FORWARD_TLS, FORWARD_UNIX};
