//! Receives datagrams from a socket in batches, for any event loop.
//!
//! It waits for nothing and knows no runtime; `async_datagrams` is it with tokio around.
//!
//! Invariant: the buffers are allocated once, when it is made.
//! Invariant: one call makes one system call.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::sys::{self, DATAGRAMS_PER_CALL, Slot};
use crate::{PeerAddress, Seat};

/// Room for each datagram when nobody says how much: no UDP datagram is longer than 65,507 bytes. A unixgram may be,
/// and is then cut and says so.
pub const DATAGRAM_BYTES_MAX: usize = 64 * 1024;

/// A datagram just received.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// Its bytes, or the first of them if it was longer than the room for it.
    pub bytes: &'a [u8],
    /// Who sent it.
    pub peer: PeerAddress,
    /// It was longer than `bytes`; the rest is gone.
    pub truncated: bool,
}

/// Why a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveState {
    /// Nothing waits any more.
    Drained,
    /// The batch is full and more may wait.
    More,
    /// The kernel lacks memory. What waits still does; let some time pass.
    Starved(Errno),
}

/// What a batch brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveOutcome {
    /// Datagrams handed over.
    pub received: usize,
    /// Of these, cut for want of room.
    pub truncated: usize,
    /// Why it ended.
    pub state: ReceiveState,
}

/// Receives datagrams from the socket of one seat into buffers of its own.
#[derive(Debug)]
pub struct Receiver {
    seat: Seat,
    storage: Box<[u8]>,
    slots: Box<[Slot]>,
    datagram_bytes_max: usize,
}

impl Receiver {
    /// For the socket of `seat`, of a transport that has datagrams. It allocates [`DATAGRAMS_PER_CALL`] times
    /// `datagram_bytes_max`, which is brought within 1 and [`DATAGRAM_BYTES_MAX`].
    pub fn new(seat: Seat, datagram_bytes_max: usize) -> io::Result<Self> {
        if seat.socket().address().transport().is_stream() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} has connections, not datagrams", seat.socket().address()),
            ));
        }
        let datagram_bytes_max = datagram_bytes_max.clamp(1, DATAGRAM_BYTES_MAX);
        Ok(Self {
            seat,
            storage: vec![0; datagram_bytes_max * DATAGRAMS_PER_CALL].into_boxed_slice(),
            slots: vec![Slot::EMPTY; DATAGRAMS_PER_CALL].into_boxed_slice(),
            datagram_bytes_max,
        })
    }

    /// The seat it receives for.
    pub fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Receives what waits, at most [`DATAGRAMS_PER_CALL`] datagrams, and hands each to `f`.
    ///
    /// # Errors
    /// Only what another try will not mend.
    pub fn receive_batch(&mut self, f: &mut impl FnMut(Datagram<'_>)) -> io::Result<ReceiveOutcome> {
        let nothing = |state| ReceiveOutcome { received: 0, truncated: 0, state };
        let socket = self.seat.socket();
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
        let mut truncated = 0;
        for (slot, place) in
            self.slots.iter().zip(self.storage.chunks_exact(self.datagram_bytes_max)).take(received)
        {
            truncated += usize::from(slot.truncated);
            f(Datagram {
                bytes: &place[..slot.length],
                peer: PeerAddress(socket_address(&slot.name)),
                truncated: slot.truncated,
            });
        }
        socket.counters().add_datagrams(received, truncated);
        // The kernel stops short of a full batch only when nothing is left.
        let state = if received < DATAGRAMS_PER_CALL { ReceiveState::Drained } else { ReceiveState::More };
        Ok(ReceiveOutcome { received, truncated, state })
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
