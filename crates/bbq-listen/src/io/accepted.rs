//! Accepts one bounded batch of connections from one socket.
//!
//! Invariant: one call makes at most `ACCEPTS_PER_BATCH_MAX` system calls, and two to sample the accept delay.
//! Invariant: an error of one connection does not end the batch.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};

use crate::dispatch::open_count::OpenCount;
use crate::io::shortage::Shortage;
use crate::limits::STARVED_PAUSE;
use crate::sockets::socket::{PeerAddress, Socket};

/// Connections accepted before the worker does anything else. An accept loop that empties the queue first runs out of descriptors
/// under load, before it has read a byte. With 64, the cost of a wake-up is already small compared with that of the accepts.
pub const ACCEPTS_PER_BATCH_MAX: usize = 64;

/// A connection just accepted. It is non-blocking and closed on exec; a tcp connection has the options that
/// [`GroupOptions`](crate::GroupOptions) say. No other option is set.
#[derive(Debug)]
#[non_exhaustive]
pub struct Accepted {
    /// The connection.
    pub stream: OwnedFd,
    /// The address of the client.
    pub peer: PeerAddress,
    /// Only of a connection that was handed over, with `handoff` or steering by load: counts the connection as open. Keep it for as long
    /// as the connection.
    pub open: Option<OpenCount>,
}

/// Why a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptState {
    /// The queue is empty.
    Drained,
    /// The limit was reached, and more may be queued.
    More,
    /// No descriptor or no memory was left for the next connection, which stays queued. Close something or wait; an immediate
    /// retry only uses processor time.
    Starved(Shortage),
}

impl AcceptState {
    /// The timeout of the event loop's next wait: none until something happens, zero, or [`STARVED_PAUSE`].
    pub fn timeout(self) -> Option<Duration> {
        match self {
            Self::Drained => None,
            Self::More => Some(Duration::ZERO),
            Self::Starved(_) => Some(STARVED_PAUSE),
        }
    }
}

/// The result of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcceptOutcome {
    /// Connections handed over, 0 to the limit.
    pub accepted: usize,
    /// Why it ended.
    pub state: AcceptState,
}

/// Accepts a batch from a socket.
pub(crate) fn accept_from(
    socket: &Socket,
    limit: usize,
    f: &mut impl FnMut(Accepted),
) -> io::Result<AcceptOutcome> {
    let sampling = socket.accept_delays().sampling();
    let (mut accepted, mut aborted) = (0, 0);
    let mut state = Ok(AcceptState::More);
    while accepted + aborted < limit.min(ACCEPTS_PER_BATCH_MAX) {
        match acceptfrom_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((stream, peer)) => {
                if sampling.wants(accepted) {
                    socket.accept_delays().sample(&stream);
                }
                accepted += 1;
                let peer = PeerAddress(peer.and_then(|peer| SocketAddr::try_from(peer).ok()));
                f(Accepted { stream, peer, open: None });
            }
            Err(Errno::AGAIN) => {
                state = Ok(AcceptState::Drained);
                break;
            }
            Err(errno) if concerns_one_connection(errno) => aborted += 1,
            Err(errno) => {
                state = Shortage::of(errno).map(AcceptState::Starved).ok_or(errno);
                if state.is_ok() {
                    socket.counters().add_starved();
                }
                break;
            }
        }
    }
    socket.counters().add_batch(accepted, aborted);
    Ok(AcceptOutcome { accepted, state: state? })
}

/// Errors that are pending on the connection, not on the listener: accept(2), "Error handling", and `EPERM` of a
/// firewall.
pub fn concerns_one_connection(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::CONNABORTED
            | Errno::INTR
            | Errno::PERM
            | Errno::NETDOWN
            | Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETUNREACH
            | Errno::TIMEDOUT
            | Errno::CONNRESET
    )
}
