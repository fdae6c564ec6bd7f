//! One socket of a group: its place in it, its counters, and what the kernel says of it.
//!
//! Invariant: it is non-blocking, closed on exec, bound, and listens if its transport has connections.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

use crate::diagnose::unix_diag;
use crate::dispatch::armed_in::ArmedIn;
use crate::io::accept_delay::{AcceptDelay, AcceptDelays};
use crate::{Address, Counters, sys};

/// What waits on a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueState {
    /// How much waits: connections for tcp and unix, bytes with the kernel's bookkeeping for udp.
    pub queue: u64,
    /// How much may wait, in the same unit. The kernel takes one connection more than this.
    pub backlog: u64,
}

/// The peer of a connection or datagram: its address, or `None` for unix sockets, whose peers mostly have no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerAddress(pub Option<SocketAddr>);

impl std::fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(address) => address.fmt(f),
            None => f.write_str("local"),
        }
    }
}

/// One socket of a [`Group`](crate::Group).
#[derive(Debug)]
pub struct Socket {
    // Shared with the runtimes that wait for it.
    descriptor: Arc<OwnedFd>,
    index: usize,
    worker: Option<usize>,
    address: Address,
    receive_buffer_bytes: Option<u32>,
    counters: Counters,
    armed_in: Mutex<ArmedIn>,
    accept_delays: AcceptDelays,
}

impl Socket {
    pub(crate) fn new(
        descriptor: OwnedFd,
        index: usize,
        worker: Option<usize>,
        address: Address,
        receive_buffer_bytes: Option<u32>,
    ) -> Self {
        // A connection is anybody's until its worker is there. A datagram waits for the worker that its sender has always had.
        let waits = worker.is_some() && !address.transport().is_stream();
        let armed_in = if waits { ArmedIn::Exclusive } else { ArmedIn::Nowhere };
        Self {
            descriptor: Arc::new(descriptor),
            index,
            worker,
            address,
            receive_buffer_bytes,
            counters: Counters::default(),
            armed_in: Mutex::new(armed_in),
            accept_delays: AcceptDelays::default(),
        }
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.descriptor)
    }

    pub(crate) fn armed_in(&self) -> &Mutex<ArmedIn> {
        &self.armed_in
    }

    /// Its place in the group, which it keeps for as long as the group is open.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The worker whose own it is; `None` when all share it.
    pub fn worker(&self) -> Option<usize> {
        self.worker
    }

    /// The address it is bound to, with the port that was chosen.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Totals since it was opened.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn accept_delays(&self) -> &AcceptDelays {
        &self.accept_delays
    }

    /// How long connections waited to be accepted, of samples. Only tcp sockets ever have any.
    pub fn accept_delay(&self) -> AcceptDelay {
        self.accept_delays.read()
    }

    /// The receive buffer that the system granted, in the measure in which it was asked for: less than that where
    /// `net.core.rmem_max` is lower. Only for sockets of datagrams.
    pub fn receive_buffer_bytes(&self) -> Option<u32> {
        self.receive_buffer_bytes
    }

    /// What waits on the socket now. `None` for unixgram, where the kernel does not tell (there a full queue makes the
    /// sender wait), and where the question is filtered away: for unix it is asked by netlink.
    ///
    /// Costs a system call, for unix four: ask for it in status, not per connection.
    pub fn queue(&self) -> Option<QueueState> {
        let (queue, backlog) = match self.address {
            Address::Tcp(_) => sys::tcp_listen_queue(self.as_fd()).ok()?,
            Address::Udp(_) => {
                let memory = sys::memory_info(self.as_fd()).ok()?;
                (memory.receive_bytes, memory.receive_bytes_max)
            }
            Address::Unix(_) => unix_diag::listen_queue(self.as_fd()).ok()?,
            Address::UnixDatagram(_) => return None,
        };
        Some(QueueState { queue: queue.into(), backlog: backlog.into() })
    }

    /// What the kernel dropped on this socket: datagrams that found the buffer full (or were damaged), connections that
    /// found the queue full. The kernel counts in 32 bits and starts again after 4,294,967,295.
    ///
    /// `None` for the unix transports, which drop nothing, and on kernels before 4.12.
    pub fn drops(&self) -> Option<u64> {
        if self.address.transport().is_unix() {
            return None;
        }
        sys::memory_info(self.as_fd()).ok().map(|memory| memory.drops.into())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}
