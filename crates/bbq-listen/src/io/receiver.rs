//! Receives datagrams from a socket in batches, for any event loop.
//!
//! It never waits, and needs no runtime: `tokio::datagrams` is for tokio.
//!
//! Invariant: the buffers are allocated once.
//! Invariant: one call makes one system call.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;

use crate::dispatch::epoll_set::{EPOLL_EVENTS_MAX, Waiting};
use crate::sockets::listener::ServedListener;
use crate::steering::recent_senders::RecentSenders;
use crate::sys::{self, DATAGRAMS_PER_CALL, Slot};
use crate::{PeerAddress, Socket, WorkerListener};

/// Room for each datagram by default: no UDP datagram is longer than 65,507 bytes. A longer unixgram is cut, and marked as cut.
pub const DATAGRAM_BYTES_MAX: usize = 64 * 1024;

/// A datagram just received.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// Its bytes, or the first of them if it was longer than the buffer.
    pub bytes: &'a [u8],
    /// The address of the sender.
    pub peer: PeerAddress,
    /// It was longer than `bytes`; the rest is gone.
    pub truncated: bool,
}

/// Why a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveState {
    /// The queue is empty.
    Drained,
    /// The batch is full, and more may be queued.
    More,
    /// The kernel lacks memory. The datagrams stay queued; wait before the next try.
    Starved(Errno),
}

/// The result of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveOutcome {
    /// Datagrams handed over.
    pub received: usize,
    /// How many of these were cut.
    pub truncated: usize,
    /// Why it ended.
    pub state: ReceiveState,
}

/// Receives the datagrams of one worker into buffers of its own: those of its own socket, and those of shared ones when they
/// are armed in its epoll set.
///
/// While it lives, its worker counts as present.
#[derive(Debug)]
pub struct Receiver {
    worker_listener: ServedListener,
    buffers: Buffers,
}

/// Room for the datagrams of one call.
#[derive(Debug)]
struct Buffers {
    storage: Box<[u8]>,
    slots: Box<[Slot]>,
    datagram_bytes_max: usize,
}

impl Receiver {
    /// For `worker_listener`, of a transport that has datagrams; on the thread that serves it. It allocates [`DATAGRAMS_PER_CALL`]
    /// times `datagram_bytes_max`, which is brought within 1 and [`DATAGRAM_BYTES_MAX`].
    pub fn new(worker_listener: WorkerListener, datagram_bytes_max: usize) -> io::Result<Self> {
        if worker_listener.address().transport().is_stream() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} has connections, not datagrams", worker_listener.address()),
            ));
        }
        let datagram_bytes_max = datagram_bytes_max.clamp(1, DATAGRAM_BYTES_MAX);
        let buffers = Buffers {
            storage: vec![0; datagram_bytes_max * DATAGRAMS_PER_CALL].into_boxed_slice(),
            slots: vec![Slot::EMPTY; DATAGRAMS_PER_CALL].into_boxed_slice(),
            datagram_bytes_max,
        };
        Ok(Self { worker_listener: ServedListener::new(worker_listener), buffers })
    }

    /// The worker it receives for.
    pub fn worker_listener(&self) -> &WorkerListener {
        &self.worker_listener
    }

    /// Receives what waits, at most [`DATAGRAMS_PER_CALL`] datagrams, and hands each to `f`.
    ///
    /// # Errors
    /// Only those that another try does not mend.
    pub fn receive_batch(&mut self, f: &mut impl FnMut(Datagram<'_>)) -> io::Result<ReceiveOutcome> {
        let own = self.receive_own(f)?;
        if own.received > 0 || own.state != ReceiveState::Drained { Ok(own) } else { self.receive_shared(f) }
    }

    /// From its own socket, if it has one.
    pub(crate) fn receive_own(&mut self, f: &mut impl FnMut(Datagram<'_>)) -> io::Result<ReceiveOutcome> {
        self.worker_listener.beat();
        let Some(socket) = self.worker_listener.own() else {
            return Ok(ReceiveOutcome { received: 0, truncated: 0, state: ReceiveState::Drained });
        };
        let outcome = self.buffers.receive(socket)?;
        self.worker_listener.add_received(outcome.received);
        self.buffers.hand_over(outcome.received, self.worker_listener.dispatch().seen(), f);
        Ok(outcome)
    }

    /// From the shared sockets that are armed in its epoll set, one batch of one of them.
    pub(crate) fn receive_shared(&mut self, f: &mut impl FnMut(Datagram<'_>)) -> io::Result<ReceiveOutcome> {
        self.worker_listener.beat();
        let mut total = ReceiveOutcome { received: 0, truncated: 0, state: ReceiveState::Drained };
        let mut waiting = [Waiting::Inbox; EPOLL_EVENTS_MAX];
        let found = self.worker_listener.epoll_set().waiting(&mut waiting)?;
        let (dispatch, worker) = (Arc::clone(self.worker_listener.dispatch()), self.worker_listener.worker());
        for waiting in &waiting[..found] {
            let Waiting::Socket(index) = *waiting else { continue };
            let Some(socket) = dispatch.socket(index) else { continue };
            let outcome = self.buffers.receive(&socket);
            // Passed on before the datagrams are handled, which may take long.
            match &outcome {
                Ok(outcome) if outcome.received > 0 => dispatch.pass(&socket, worker),
                _ => dispatch.keep(&socket, worker),
            }
            let outcome = outcome?;
            if socket.worker().is_some_and(|own| own != worker) {
                socket.counters().add_rescued(outcome.received);
            }
            self.worker_listener.add_received(outcome.received);
            self.buffers.hand_over(outcome.received, dispatch.seen(), f);
            total.received += outcome.received;
            total.truncated += outcome.truncated;
            total.state = match outcome.state {
                // The next epoll_wait tells whether there is more.
                ReceiveState::Drained | ReceiveState::More => ReceiveState::More,
                starved @ ReceiveState::Starved(_) => starved,
            };
        }
        Ok(total)
    }
}

impl Buffers {
    /// One batch of a socket.
    fn receive(&mut self, socket: &Socket) -> io::Result<ReceiveOutcome> {
        let nothing = |state| ReceiveOutcome { received: 0, truncated: 0, state };
        let result =
            sys::receive_many(socket.as_fd(), &mut self.storage, self.datagram_bytes_max, &mut self.slots);
        let received = match result {
            Ok(received) => received,
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::AGAIN) => return Ok(nothing(ReceiveState::Drained)),
                Some(Errno::INTR) => return Ok(nothing(ReceiveState::More)),
                Some(errno @ (Errno::NOBUFS | Errno::NOMEM)) => {
                    socket.counters().add_starved();
                    return Ok(nothing(ReceiveState::Starved(errno)));
                }
                _ => return Err(error),
            },
        };
        let truncated = self.slots.iter().take(received).filter(|slot| slot.truncated).count();
        socket.counters().add_datagrams(received, truncated);
        // The kernel stops short of a full batch only when nothing is left.
        let state = if received < DATAGRAMS_PER_CALL { ReceiveState::Drained } else { ReceiveState::More };
        Ok(ReceiveOutcome { received, truncated, state })
    }

    /// Hands over what the last call received.
    fn hand_over(&self, received: usize, seen: Option<&RecentSenders>, f: &mut impl FnMut(Datagram<'_>)) {
        let places = self.storage.chunks_exact(self.datagram_bytes_max);
        for (slot, place) in self.slots.iter().zip(places).take(received) {
            let peer = PeerAddress(socket_address(&slot.name));
            if let (Some(seen), Some(sender)) = (seen, peer.0) {
                seen.note(sender);
            }
            f(Datagram { bytes: &place[..slot.length], peer, truncated: slot.truncated });
        }
    }
}

/// `sockaddr_in`: family u16, port u16 (network order), address 4 bytes. `sockaddr_in6`: family, port, flow u32,
/// address 16 bytes, scope u32 (the machine's order).
fn socket_address(name: &[u8; 28]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes([name[2], name[3]]);
    match i32::from(u16::from_ne_bytes([name[0], name[1]])) {
        libc::AF_INET => {
            Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(name[4], name[5], name[6], name[7])), port))
        }
        libc::AF_INET6 => {
            let address: [u8; 16] = name[8..24].try_into().ok()?;
            let flow = u32::from_ne_bytes(name[4..8].try_into().ok()?);
            let scope = u32::from_ne_bytes(name[24..28].try_into().ok()?);
            Some(SocketAddrV6::new(Ipv6Addr::from(address), port, flow, scope).into())
        }
        _ => None,
    }
}
