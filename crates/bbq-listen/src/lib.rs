//! Listener groups: who gets the next connection or datagram.
//!
//! A server with one thread per core has to spread connections and datagrams over its threads. With one socket per worker
//! (`SO_REUSEPORT`) each connection costs least, and many clients are spread evenly; but a connection behind a busy worker
//! waits. With one shared socket the next connection goes to a worker that is free. A [`Group`] is all the sockets that
//! listen on one address. The main thread of the server opens it once; each worker gets a [`WorkerListener`] of it, and serves
//! that with the same code for every [`Distribution`].
//!
//! ```no_run
//! # #[cfg(feature = "tokio")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use bbq_listen::{
//!     ACCEPTS_PER_BATCH_MAX, AsyncListener, Group, GroupOptions, STALL_THRESHOLD_DEFAULT, StallMonitor,
//!     install_heartbeat, worker_count,
//! };
//! use std::{io::Write, net::TcpStream, thread};
//!
//! bbq_listen::raise_descriptor_limit();
//! let group = Group::open(&GroupOptions::new("tcp://127.0.0.1:7701".parse()?, worker_count()))?;
//! println!("{} by {}", group.local_address(), group.distribution());
//! if let Some(reason) = group.fallback() {
//!     println!("because {reason}");
//! }
//! // Other workers take what is queued for a stalled worker.
//! let _monitor = StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, |event| eprintln!("{event:?}"))?;
//! thread::scope(|threads| {
//!     for worker_listener in group.worker_listeners() {
//!         threads.spawn(move || -> std::io::Result<()> {
//!             let mut builder = tokio::runtime::Builder::new_current_thread();
//!             install_heartbeat(&mut builder);
//!             builder.enable_all().build()?.block_on(async {
//!                 let mut listener = AsyncListener::new(worker_listener)?;
//!                 loop {
//!                     listener
//!                         .accept_batch(ACCEPTS_PER_BATCH_MAX, |accepted| {
//!                             // Non-blocking: first do what can be done at once, then register what would block.
//!                             let mut stream = TcpStream::from(accepted.stream);
//!                             let _ = stream.write(b"hello\n");
//!                         })
//!                         .await?;
//!                 }
//!             })
//!         });
//!     }
//! });
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "tokio"))]
//! # fn main() {}
//! ```
//!
//! Without the feature `tokio`, [`Acceptor`] and [`Receiver`] give the same bounded batches to any event loop. The event loop
//! waits for the [`WorkerListener::descriptors`] inside of [`Heartbeat::sleep_while`]. A thread that blocks needs no event loop:
//! [`Acceptor::accept_until`] waits for one connection.
//!
//! [`how_it_works`] says where the ideas come from, and what was measured.
//! `examples/` has whole servers: a greeter, HTTP, a TCP proxy, a name server, and short ones on axum, hyper, mio and threads.
//!
//! # What it does for you
//! - **An address has one owner.** [`Group::open`] refuses an address that another socket listens on, and names the holder. Plain
//!   `SO_REUSEPORT` lets a second copy of a server join and silently take half of the traffic. A program of the same user that
//!   joins later gets nothing, and [`StallMonitor::on_foreign_member`] tells of it.
//! - **A stalled worker delays no client.** With a [`StallMonitor`] other workers take what is queued for a worker that is stalled
//!   or absent, with every distribution.
//! - **A stop loses no request.** A client that is connected may send a first request within a grace, and idle clients delay a stop no
//!   longer ([`Group::run_tokio`], with the feature `tokio`).
//! - **Nothing that is queued is lost.** [`Group::resize`] grows and shrinks a group, [`Group::adopt`] takes the sockets of another
//!   process, and [`Group::pause`] lets all workers end and other workers start.
//! - **A restart loses nothing.** A `HandOver` takes the sockets of the process that serves, which then stops (feature `tokio`).
//! - **Work is bounded.** A batch has at most [`ACCEPTS_PER_BATCH_MAX`] connections. Running out of descriptors is an outcome, not
//!   an error; the connections go on waiting in the queue.
//! - **Replies are sent together.** A [`SendBatch`] sends many datagrams with one system call, and several to one peer as one
//!   message that the kernel cuts (UDP GSO), if the kernel can.
//! - **It can be observed.** Per socket: [`Counters`], [`Socket::queue`] (how much waits, and how much may), [`Socket::drops`],
//!   [`Socket::accept_delay`]. Per group: [`Group::taken`], [`Evenness`], [`Group::foreign_members`], and [`Group::diagnose`] (what is not as it was asked for).
//!
//! The crate knows nothing of messages, reads no connection, and logs nothing unless the feature `tracing` is on. It starts a thread only for a stall monitor and
//! for `handoff`. The crate bbq-prefork serves a group by processes instead of threads.
//!
//! Invariant: raw system calls and `unsafe` are in `sys`, nowhere else.

#![deny(unsafe_code)]
// docs.rs shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

// In front of the modules, as the compiler prints it first.
#[cfg(not(target_os = "linux"))]
compile_error!(
    "bbq-listen needs Linux: it uses epoll, SO_REUSEPORT as Linux implements it, and SOCK_DIAG. On another system, build in a \
     Linux container or virtual machine."
);

mod address;
mod diagnose;
mod dispatch;
mod distribution;
mod error;
mod io;
mod limits;
mod parse;
mod sockets;
mod stall;
mod steering;
mod sys;
#[cfg(feature = "tokio")]
mod tokio;

pub use address::{Address, Transport, UNIX_PATH_BYTES_MAX};
pub use diagnose::evenness::Evenness;
pub use diagnose::finding::Finding;
pub use diagnose::foreign::ForeignMember;
pub use diagnose::holder::Holder;
pub use dispatch::open_count::OpenCount;
pub use distribution::{Distribution, HandoffRule};
pub use error::ListenError;
pub use io::accept_delay::{ACCEPT_DELAY_BUCKETS_MS, AcceptDelay};
pub use io::accepted::{ACCEPTS_PER_BATCH_MAX, AcceptOutcome, AcceptState, Accepted};
pub use io::acceptor::Acceptor;
pub use io::counters::Counters;
pub use io::receiver::{DATAGRAM_BYTES_MAX, Datagram, ReceiveOutcome, ReceiveState, Receiver};
pub use io::send_batch::{SEND_BATCH_DATAGRAMS_MAX, SendBatch};
pub use io::shortage::Shortage;
pub use limits::{
    DRAIN_TIMEOUT, DescriptorLimit, FIRST_BYTE_GRACE_DEFAULT, STARVED_PAUSE, WORKERS_MAX,
    raise_descriptor_limit, return_all_freed_memory, return_freed_memory, worker_count,
};
pub use sockets::activation::{Activated, activated, bound_address};
pub use sockets::group::Group;
#[cfg(feature = "tokio")]
pub use sockets::hand_over::HandOver;
pub use sockets::listener::WorkerListener;
pub use sockets::options::{
    BACKLOG_DEFAULT, GroupOptions, KEEPALIVE_DEFAULT, RECEIVE_BUFFER_BYTES_DEFAULT, UnixOwner,
};
pub use sockets::peer_process::PeerProcess;
pub use sockets::socket::{PeerAddress, QueueState, Socket};
pub use stall::heartbeat::Heartbeat;
#[cfg(feature = "tokio")]
pub use stall::heartbeat::install_heartbeat;
pub use stall::monitor::{STALL_THRESHOLD_DEFAULT, StallEvent, StallMonitor};
pub use stall::watch::STALL_THRESHOLD_MIN;
pub use steering::key::SteeringKey;
pub use steering::pinned::{STEERING_PINS_DEFAULT, STEERING_PINS_MAX};
pub use steering::setup::SteeringSetup;
pub use steering::{Steering, WEIGHT_MAX};
pub use sys::DATAGRAMS_PER_CALL;
pub use sys::processes::unacknowledged_bytes;
#[cfg(feature = "tokio")]
pub use tokio::any_listener::{AnyStream, AsyncAnyListener};
#[cfg(feature = "tokio")]
pub use tokio::connection::AsyncConnection;
#[cfg(feature = "tokio")]
pub use tokio::counted_stream::{CountedStream, OpenConnection};
#[cfg(feature = "tokio")]
pub use tokio::datagrams::{AsyncDatagrams, RECEIVE_CALLS_PER_BATCH_MAX};
#[cfg(feature = "tokio")]
pub use tokio::listener::AsyncListener;
#[cfg(feature = "tokio")]
pub use tokio::runner::TokioRunner;
#[cfg(feature = "rustls")]
pub use tokio::tls::{
    AsyncTlsListener, AsyncTlsStream, TLS_HANDSHAKE_TIMEOUT_DEFAULT, TLS_HANDSHAKES_MAX_DEFAULT,
};
#[cfg(feature = "tokio")]
pub use tokio::unix_listener::AsyncUnixListener;

#[doc = include_str!("how_it_works.md")]
pub mod how_it_works {}

/// Compiles the examples of the README.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../README.md")]
struct ReadmeDocTests;

/// For bbq-prefork alone, and no part of the API.
#[doc(hidden)]
pub mod for_prefork {
    pub use crate::io::accepted::concerns_one_connection;
    pub use crate::stall::heartbeat::Seen;
    pub use crate::stall::watch::{Changes, Ended, Sight, Watch, help_after};
    pub use crate::sys::processes::{
        ChildProcess, Progress, SharedWords, WAIT_FOR_CLONES, borrow_number, clone_sharing_descriptors,
        close_number, tcp_progress,
    };
    #[cfg(feature = "tokio")]
    pub use crate::sys::register_readable;
}
