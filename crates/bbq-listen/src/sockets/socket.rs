//! One socket of a group: its index, its counters, and its queue in the kernel.
//!
//! Invariant: it is non-blocking, closed on exec, bound, and listens if its transport has connections.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

use crate::diagnose::unix_diag;
use crate::dispatch::armed_in::ArmedIn;
use crate::io::accept_delay::{AcceptDelay, AcceptDelays};
use crate::{Address, Counters, sys};

/// The length of a socket's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueState {
    /// What is queued: connections for tcp and unix, bytes with the kernel's overhead for udp.
    pub queue: u64,
    /// The limit of the queue, in the same unit. The kernel takes one connection more than this.
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
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let group = bbq_listen::Group::at("127.0.0.1:0")?.open()?;
/// for socket in group.sockets() {
///     let waiting = socket.queue().map_or(0, |state| state.queue);
///     println!("socket {}: {} accepted, {waiting} waiting", socket.index(), socket.counters().accepted());
/// }
/// # Ok(())
/// # }
/// ```
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
        // Until its worker is present, any worker may take a connection. A datagram waits for the worker of its sender.
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

    /// Its index in the group, which it keeps while the group is open.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The worker that owns it; `None` if all workers share it.
    pub fn worker(&self) -> Option<usize> {
        self.worker
    }

    /// The address it is bound to, with the port that the system chose.
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

    /// How long sampled connections waited to be accepted. Only tcp sockets have samples.
    pub fn accept_delay(&self) -> AcceptDelay {
        self.accept_delays.read()
    }

    /// The receive buffer that the system granted, in the unit of `SO_RCVBUF`: less than requested if `net.core.rmem_max` is lower.
    /// `None` for sockets of connections.
    pub fn receive_buffer_bytes(&self) -> Option<u32> {
        self.receive_buffer_bytes
    }

    /// The length of the socket's queue now. `None` for unixgram, where the kernel does not tell (a full queue makes the sender
    /// wait), and for unix if netlink is blocked.
    ///
    /// It costs a system call, for unix four: call it for a status page, not for each connection.
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

    /// What the kernel dropped on this socket: datagrams when the buffer was full (or damaged ones), connections when the queue was
    /// full. The kernel's counter has 32 bits and wraps around.
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
