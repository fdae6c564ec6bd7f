//! Receives datagrams from a socket in batches, for any event loop.
//!
//! It never waits, and needs no runtime: `tokio::datagrams` is for tokio.
//!
//! Invariant: the buffers are allocated once.
//! Invariant: a batch is `Drained` only when its worker's own socket and the shared ones are.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use crate::dispatch::epoll_set::{EPOLL_EVENTS_MAX, Waiting};
use crate::dispatch::handed::{Handed, HandedInbox};
use crate::io::shortage::Shortage;
use crate::limits::{STARVED_PAUSE, coarse_ms};
use crate::sockets::listener::ServedListener;
use crate::steering::conversations::Conversations;
use crate::sys::{self, DATAGRAMS_PER_CALL, Slot};
use crate::{PeerAddress, PeerProcess, Socket, WorkerListener};

/// Room for each datagram by default: no UDP datagram is longer than 65,507 bytes. A longer unixgram is cut, and marked as cut.
pub const DATAGRAM_BYTES_MAX: usize = 64 * 1024;

/// Room for the datagrams of one call. Where they may be longer than [`DATAGRAM_BYTES_MAX`], a call takes fewer: even four share its
/// cost.
const ROOM_BYTES: usize = 4 * 1024 * 1024;

/// A datagram just received.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Datagram<'a> {
    /// Its bytes, or the first of them if it was longer than the buffer.
    pub bytes: &'a [u8],
    /// The address of the sender.
    pub peer: PeerAddress,
    /// The process that sent it, by a unix socket.
    pub process: Option<PeerProcess>,
    /// It was longer than `bytes`; the rest is gone.
    pub truncated: bool,
    /// The address of this machine that the sender asked, if the group listens on a wildcard address. The reply has to leave from
    /// there ([`SendBatch::reply`](crate::SendBatch::reply)): a sender takes no reply from another address.
    pub local: Option<IpAddr>,
}

/// Why a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveState {
    /// The queue is empty.
    Drained,
    /// The batch is full, and more may be queued.
    More,
    /// The kernel lacks memory. The datagrams stay queued; wait before the next try.
    Starved(Shortage),
}

impl ReceiveState {
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
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::net::UdpSocket;
///
/// use bbq_listen::{DATAGRAM_BYTES_MAX, Group, Receiver};
///
/// let group = Group::at("udp://127.0.0.1:0")?.workers(1).open()?;
/// let to = group.local_address().socket_address().ok_or("not udp")?;
/// let mut receiver = Receiver::new(group.worker_listener(0)?, DATAGRAM_BYTES_MAX)?;
/// UdpSocket::bind("127.0.0.1:0")?.send_to(b"said", to)?;
/// let outcome = receiver.receive_batch(&mut |datagram| assert_eq!(datagram.bytes, b"said"))?;
/// assert_eq!(outcome.received, 1);
/// # Ok(())
/// # }
/// ```
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
    /// For `worker_listener`, of a transport that has datagrams; on the thread that serves it. It allocates `datagram_bytes_max`, at
    /// least 1, for each datagram of a call: [`DATAGRAMS_PER_CALL`] of them, or as many as 4 MiB have room for, at least one.
    pub fn new(worker_listener: WorkerListener, datagram_bytes_max: usize) -> io::Result<Self> {
        Self::served(worker_listener, datagram_bytes_max, ServedListener::new)
    }

    /// For a task of a tokio runtime.
    #[cfg(feature = "tokio")]
    pub(crate) fn of_task(worker_listener: WorkerListener, datagram_bytes_max: usize) -> io::Result<Self> {
        Self::served(worker_listener, datagram_bytes_max, ServedListener::of_task)
    }

    fn served(
        worker_listener: WorkerListener,
        datagram_bytes_max: usize,
        serve: fn(WorkerListener) -> ServedListener,
    ) -> io::Result<Self> {
        if worker_listener.address().transport().is_stream() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} has connections, not datagrams", worker_listener.address()),
            ));
        }
        let datagram_bytes_max = datagram_bytes_max.max(1);
        let slots = (ROOM_BYTES / datagram_bytes_max).clamp(1, DATAGRAMS_PER_CALL);
        let buffers = Buffers {
            storage: vec![0; datagram_bytes_max * slots].into_boxed_slice(),
            slots: vec![Slot::EMPTY; slots].into_boxed_slice(),
            datagram_bytes_max,
        };
        Ok(Self { worker_listener: serve(worker_listener), buffers })
    }

    /// The worker it receives for.
    pub fn worker_listener(&self) -> &WorkerListener {
        &self.worker_listener
    }

    /// Receives what waits: at most [`DATAGRAMS_PER_CALL`] datagrams of its own socket and, when that is empty, as many of each shared
    /// one. Hands each to `f`.
    ///
    /// # Errors
    /// Only those that another try does not mend.
    pub fn receive_batch(&mut self, f: &mut impl FnMut(Datagram<'_>)) -> io::Result<ReceiveOutcome> {
        let own = self.receive_own(f)?;
        if own.state != ReceiveState::Drained {
            return Ok(own);
        }
        let shared = self.receive_shared(f)?;
        Ok(ReceiveOutcome {
            received: own.received + shared.received,
            truncated: own.truncated + shared.truncated,
            state: shared.state,
        })
    }

    /// From its own socket, if it has one.
    pub(crate) fn receive_own(&mut self, f: &mut impl FnMut(Datagram<'_>)) -> io::Result<ReceiveOutcome> {
        self.worker_listener.beat();
        let Some(socket) = self.worker_listener.own() else {
            return Ok(ReceiveOutcome { received: 0, truncated: 0, state: ReceiveState::Drained });
        };
        let conversations = self.worker_listener.dispatch().conversations();
        let swaps = conversations.map(Conversations::swaps);
        let mut outcome = self.buffers.receive(socket)?;
        outcome.received = self.buffers.hand_over(outcome.received, socket, &self.worker_listener, f);
        self.worker_listener.add_received(outcome.received);
        if outcome.state == ReceiveState::Drained {
            conversations.zip(swaps).inspect(|(conversations, swaps)| {
                conversations.settle(self.worker_listener.worker(), *swaps);
            });
        }
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
            let index = match *waiting {
                Waiting::Socket(index) => index,
                Waiting::Handed => {
                    total.received += self.receive_handed(f);
                    total.state = ReceiveState::More;
                    continue;
                }
                Waiting::Inbox => continue,
            };
            let Some(socket) = dispatch.socket(index) else { continue };
            let outcome = self.buffers.receive(&socket);
            // Passed on before the datagrams are handled, which may take long.
            match &outcome {
                Ok(outcome) if outcome.received > 0 => dispatch.pass(&socket, worker),
                _ => dispatch.keep(&socket, worker),
            }
            let mut outcome = outcome?;
            if socket.worker().is_some_and(|own| own != worker) {
                socket.counters().add_rescued(outcome.received);
            }
            outcome.received = self.buffers.hand_over(outcome.received, &socket, &self.worker_listener, f);
            self.worker_listener.add_received(outcome.received);
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

    /// As [`receive_batch`](Self::receive_batch), and then from every inbox and every socket of the group: for a stop, when the
    /// worker that a datagram waits for may have ended.
    #[cfg(feature = "tokio")]
    pub(crate) fn receive_anywhere(
        &mut self,
        f: &mut impl FnMut(Datagram<'_>),
    ) -> io::Result<ReceiveOutcome> {
        let mut total = self.receive_batch(f)?;
        let dispatch = Arc::clone(self.worker_listener.dispatch());
        for epoll_set in dispatch.epoll_sets() {
            let handed = epoll_set.handed().map(HandedInbox::drain).unwrap_or_default();
            handed.iter().for_each(|handed| f(handed.as_datagram()));
            self.worker_listener.add_received(handed.len());
            total.received += handed.len();
        }
        for socket in dispatch.sockets() {
            if total.state != ReceiveState::Drained {
                break;
            }
            let outcome = self.buffers.receive(&socket)?;
            self.buffers.datagrams(outcome.received).for_each(&mut *f);
            self.worker_listener.add_received(outcome.received);
            total.received += outcome.received;
            total.truncated += outcome.truncated;
            total.state = outcome.state;
        }
        Ok(total)
    }

    /// What other workers handed on, as much as one batch.
    fn receive_handed(&self, f: &mut impl FnMut(Datagram<'_>)) -> usize {
        let inbox = self.worker_listener.epoll_set().handed();
        let handed = inbox.into_iter().flat_map(|inbox| std::iter::from_fn(|| inbox.pop()));
        let count = handed.take(DATAGRAMS_PER_CALL).map(|handed| f(handed.as_datagram())).count();
        self.worker_listener.add_received(count);
        count
    }

    /// Ends it, and hands to `f` what other workers have handed on to this one. For a worker that ends while the group goes on, and for
    /// the last batches of a server: dropped instead, a receiver leaves that to the other workers, or to the worker's next receiver.
    /// Returns how many there were.
    pub fn finish(self, mut f: impl FnMut(Datagram<'_>)) -> usize {
        let epoll_set = Arc::clone(self.worker_listener.epoll_set());
        // Taken out before anybody else does; what comes meanwhile is for the others.
        let mut handed: Vec<Handed> = Vec::new();
        let mut take = || handed.extend(epoll_set.handed().into_iter().flat_map(HandedInbox::drain));
        take();
        drop(self);
        take();
        handed.iter().for_each(|handed| f(handed.as_datagram()));
        epoll_set.add_taken(handed.len());
        handed.len()
    }
}

impl Handed {
    fn as_datagram(&self) -> Datagram<'_> {
        Datagram {
            bytes: &self.bytes,
            peer: self.peer,
            // Only datagrams of udp are handed on.
            process: None,
            truncated: self.truncated,
            local: self.local,
        }
    }
}

impl Buffers {
    /// One batch of a socket.
    fn receive(&mut self, socket: &Socket) -> io::Result<ReceiveOutcome> {
        let nothing = |state| ReceiveOutcome { received: 0, truncated: 0, state };
        let (bytes_max, with_control) = (self.datagram_bytes_max, socket.address().has_control_data());
        let result =
            sys::receive_many(socket.as_fd(), with_control, &mut self.storage, bytes_max, &mut self.slots);
        let received = match result {
            Ok(received) => received,
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::AGAIN) => return Ok(nothing(ReceiveState::Drained)),
                Some(Errno::INTR) => return Ok(nothing(ReceiveState::More)),
                Some(Errno::NOBUFS | Errno::NOMEM) => {
                    socket.counters().add_starved();
                    return Ok(nothing(ReceiveState::Starved(Shortage::Memory)));
                }
                _ => return Err(error),
            },
        };
        let truncated = self.slots.iter().take(received).filter(|slot| slot.truncated).count();
        socket.counters().add_datagrams(received, truncated);
        // The kernel stops short of a full batch only when nothing is left.
        let state = if received < self.slots.len() { ReceiveState::Drained } else { ReceiveState::More };
        Ok(ReceiveOutcome { received, truncated, state })
    }

    /// What the last call received.
    fn datagrams(&self, received: usize) -> impl Iterator<Item = Datagram<'_>> {
        let places = self.storage.chunks_exact(self.datagram_bytes_max);
        self.slots.iter().zip(places).take(received).map(|(slot, place)| Datagram {
            bytes: &place[..slot.length],
            peer: PeerAddress(socket_address(&slot.name)),
            process: slot.credentials.map(PeerProcess::from),
            truncated: slot.truncated,
            local: slot.local,
        })
    }

    /// Hands over what the last call received from `socket`: to `f`, or to the worker that the sender belongs to. Returns how many were
    /// handed to `f`.
    fn hand_over(
        &self,
        received: usize,
        socket: &Socket,
        listener: &ServedListener,
        f: &mut impl FnMut(Datagram<'_>),
    ) -> usize {
        let (dispatch, worker) = (listener.dispatch(), listener.worker() as u16);
        let arrived_at = socket.worker().map_or(worker, |own| own as u16);
        let mut owners = [arrived_at; DATAGRAMS_PER_CALL];
        if let Some(conversations) = dispatch.conversations().filter(|_| received > 0) {
            let senders = self.slots.iter().take(received).map(|slot| socket_address(&slot.name));
            conversations.arrive(senders, arrived_at, &mut owners, coarse_ms());
        }
        let mut served = 0;
        for (datagram, owner) in self.datagrams(received).zip(owners) {
            let is_for_another = owner != arrived_at && owner != worker;
            if is_for_another && dispatch.hand(owner.into(), Handed::from(&datagram)).is_ok() {
                continue;
            }
            served += 1;
            f(datagram);
        }
        served
    }
}

impl From<&Datagram<'_>> for Handed {
    fn from(datagram: &Datagram<'_>) -> Self {
        let Datagram { bytes, peer, truncated, local, .. } = *datagram;
        Self { bytes: bytes.into(), peer, truncated, local }
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
