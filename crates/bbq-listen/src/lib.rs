//! Listener groups: who gets the next connection or datagram.
//!
//! A server with one thread per core has to spread what arrives over its threads. How is a choice with consequences: one
//! socket per worker (`SO_REUSEPORT`) is cheapest and even over many clients, but what waits behind a busy worker waits;
//! one shared socket gives the next connection to whoever is free. A [`Group`] is all the sockets that listen on one
//! address. It is opened once, by the server's main thread; each worker takes its [`Seat`] in it and serves that, with
//! the same code whatever the [`Distribution`] is.
//!
//! ```no_run
//! # #[cfg(feature = "tokio")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use bbq_listen::{
//!     ACCEPTS_PER_TURN_MAX, AsyncListener, Group, GroupOptions, STALL_THRESHOLD_DEFAULT, Watch, install_pulse, worker_count,
//! };
//! use std::{io::Write, net::TcpStream, thread};
//!
//! bbq_listen::raise_descriptor_limit();
//! let group = Group::open(&GroupOptions::new("tcp://127.0.0.1:7701".parse()?, worker_count()))?;
//! println!("{} by {}", group.local_address(), group.distribution());
//! if let Some(reason) = group.fallback() {
//!     println!("because {reason}");
//! }
//! // Lets the others take what waits for a worker that does not come around.
//! let _watch = Watch::start([&group], STALL_THRESHOLD_DEFAULT, |event| eprintln!("{event:?}"))?;
//! thread::scope(|threads| {
//!     for seat in group.seats() {
//!         threads.spawn(move || -> std::io::Result<()> {
//!             let mut builder = tokio::runtime::Builder::new_current_thread();
//!             install_pulse(&mut builder);
//!             builder.enable_all().build()?.block_on(async {
//!                 let mut listener = AsyncListener::new(seat)?;
//!                 loop {
//!                     listener
//!                         .turn(ACCEPTS_PER_TURN_MAX, |accepted| {
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
//! Without the feature `tokio` there are [`Acceptor`] and [`Receiver`]: the same bounded batches, for the event loop of
//! your choice. It waits for two descriptors: that of the seat's own socket, if the distribution gives it one
//! ([`Seat::own`]), and that of its door ([`Seat::door_descriptor`]), through which come connections of common sockets. Around
//! the wait it calls [`Pulse::sleep`] and [`Pulse::wake`].
//!
//! Whole servers are in `examples/`: a greeter, HTTP, a TCP proxy, a name server.
//!
//! # What it does for you
//! - **Guard.** An address that somebody listens on is refused, and the holder named. Plain `SO_REUSEPORT` lets a second
//!   copy of a server join and silently take half of the traffic. Who joins later without asking cannot be kept out, but
//!   is seen: [`Group::foreign_members`].
//! - **No hostages.** With a [`Watch`] nothing waits for a worker that is stalled or gone, whatever the distribution is.
//! - **Nothing lost.** [`Group::resize`] grows and shrinks a group, [`Group::adopt`] takes the sockets of another process, and
//!   [`Group::pause`] lets all workers end and others come: what is queued stays queued.
//! - **Bounds.** A turn accepts at most [`ACCEPTS_PER_TURN_MAX`]; running out of descriptors is an outcome, not an error,
//!   and the rest goes on waiting in the queue.
//! - **Answers in bulk.** An [`Outbox`] sends datagrams together, and those of one peer on one way through the kernel
//!   (UDP GSO), where the kernel can.
//! - **To be seen.** Per socket: [`Counters`], [`Socket::queue`] (how much waits, and how much may), [`Socket::drops`],
//!   [`Socket::accept_delay`]; per group [`Group::taken`], [`Evenness`], [`Group::foreign_members`].
//!
//! It knows nothing of messages, reads no connection, logs nothing, and starts a thread only for a watch and for `handoff`.
//! Processes instead of threads are a crate of their own, bbq-prefork.
//!
//! Invariant: raw system calls and `unsafe` are in `sys`, nowhere else.

#![deny(unsafe_code)]

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
pub use diagnose::foreign::ForeignMember;
pub use diagnose::holder::Holder;
pub use dispatch::open_count::OpenCount;
pub use distribution::{Distribution, HandoffRule};
pub use error::ListenError;
pub use io::accept_delay::{ACCEPT_DELAY_BUCKETS_MS, AcceptDelay};
pub use io::accepted::{ACCEPTS_PER_TURN_MAX, AcceptOutcome, AcceptState, Accepted};
pub use io::acceptor::Acceptor;
pub use io::counters::Counters;
pub use io::outbox::{OUTBOX_DATAGRAMS_MAX, Outbox};
pub use io::receiver::{DATAGRAM_BYTES_MAX, Datagram, ReceiveOutcome, ReceiveState, Receiver};
pub use limits::{DescriptorLimit, WORKERS_MAX, raise_descriptor_limit, return_freed_memory, worker_count};
pub use sockets::activation::{Activated, activated, bound_address};
pub use sockets::group::Group;
pub use sockets::options::{BACKLOG_DEFAULT, GroupOptions, RECEIVE_BUFFER_BYTES_DEFAULT};
pub use sockets::seat::Seat;
pub use sockets::socket::{PeerAddress, QueueState, Socket};
pub use stall::pulse::Pulse;
#[cfg(feature = "tokio")]
pub use stall::pulse::install_pulse;
pub use stall::watch::{STALL_THRESHOLD_DEFAULT, STALL_THRESHOLD_MIN, Watch, WatchEvent};
pub use steering::{Steering, WEIGHT_MAX};
pub use sys::DATAGRAMS_PER_CALL;
#[cfg(feature = "tokio")]
pub use tokio::connection::AsyncConnection;
#[cfg(feature = "tokio")]
pub use tokio::datagrams::{AsyncDatagrams, RECEIVES_PER_TURN_MAX};
#[cfg(feature = "tokio")]
pub use tokio::listener::AsyncListener;
#[cfg(feature = "tokio")]
pub use tokio::pace::STARVED_PAUSE;

// Of the public API: the reason in `AcceptState::Starved` and `ReceiveState::Starved`.
pub use rustix::io::Errno;

/// For bbq-prefork alone, and no part of the API: `unsafe` stays in this crate's `sys`, whichever crate needs it.
///
/// These functions take descriptors by their numbers. The compiler does not see who owns a number: a caller that closes one
/// that is not its own breaks the owner.
#[doc(hidden)]
pub mod for_prefork {
    pub use crate::io::accepted::concerns_one_connection;
    pub use crate::sys::processes::{
        ChildProcess, Progress, SharedWords, borrow_number, clone_sharing_descriptors, close_number,
        tcp_progress,
    };
    #[cfg(feature = "tokio")]
    pub use crate::sys::register_readable;
}
