//! A group: all the sockets that listen on one address, and the workers' seats in it.
//!
//! It accepts nothing and starts no thread; that is the workers' part.
//!
//! Invariant: a socket keeps its index for as long as the group is open.
//! Invariant: a socket is open as long as the group or any seat at it is.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::adopt::adopt;
use crate::limits::WORKERS_MAX;
use crate::open::{Opened, open};
use crate::unix_path::OwnedPath;
use crate::{Address, Distribution, ListenError, Socket};

/// Connections that may wait on each socket of a group when nobody says how many. The system grants at most
/// `net.core.somaxconn`, which is 4,096 since Linux 5.4.
pub const BACKLOG_DEFAULT: u32 = 4096;

/// What to open.
#[derive(Debug, Clone)]
pub struct GroupOptions {
    /// Where. Port 0 lets the system choose one, the same for the whole group.
    pub address: Address,
    /// How connections or datagrams are spread over the workers.
    pub distribution: Distribution,
    /// How many seats: 1 to [`WORKERS_MAX`].
    pub workers: usize,
    /// Connections that may wait on each socket. Only for tcp and unix.
    pub backlog: u32,
    /// Receive buffer to ask for, in bytes, for each socket; `None` is
    /// [`RECEIVE_BUFFER_BYTES_DEFAULT`](crate::RECEIVE_BUFFER_BYTES_DEFAULT). Only for udp and unixgram.
    pub receive_buffer_bytes: Option<u32>,
}

impl GroupOptions {
    /// `address` for `workers`, everything else by default: distribution `auto`, backlog [`BACKLOG_DEFAULT`].
    pub fn new(address: Address, workers: usize) -> Self {
        Self {
            address,
            distribution: Distribution::Auto,
            workers,
            backlog: BACKLOG_DEFAULT,
            receive_buffer_bytes: None,
        }
    }
}

/// All the sockets that listen on one address, opened once by their owner.
///
/// Keep it while any worker serves: when it is dropped, the file of a unix socket goes, and with the last seat every
/// socket. Connections that wait on a socket when it is closed are reset by the kernel.
#[derive(Debug)]
pub struct Group {
    // Dropped first: while a socket is open the kernel gives its file's inode number to no other.
    path: Option<OwnedPath>,
    sockets: Vec<Arc<Socket>>,
    workers: usize,
    local_address: Address,
    configured: Distribution,
    distribution: Distribution,
    fallback: Option<String>,
}

impl Group {
    /// Opens every socket of the group.
    ///
    /// Refuses an address that anybody else listens on, this process included, and names the holder where /proc tells.
    /// That it is refused also holds for servers started at the same moment: one of them gets it.
    pub fn open(options: &GroupOptions) -> Result<Self, ListenError> {
        check_workers(options)?;
        Ok(Self::of(options, open(options)?))
    }

    /// Makes a group of sockets that somebody else opened: the program before an upgrade, or systemd. Their order is
    /// their index.
    ///
    /// Each must be what `options` ask for: transport, address (with port 0 any port, the same for all), listening. One is
    /// shared; several must be one for each worker. Descriptors are closed on exec and non-blocking from here on, and
    /// backlog and receive buffer are as in `options`.
    ///
    /// The file of a unix socket stays when the group closes, as it is somebody else's: see
    /// [`set_owns_file`](Self::set_owns_file).
    ///
    /// To hand the sockets of a group over, lend the descriptors of [`sockets`](Self::sockets) in their order.
    pub fn adopt(options: &GroupOptions, sockets: Vec<OwnedFd>) -> Result<Self, ListenError> {
        check_workers(options)?;
        Ok(Self::of(options, adopt(options, sockets)?))
    }

    fn of(options: &GroupOptions, opened: Opened) -> Self {
        let own = opened.distribution == Distribution::Reuseport;
        let sockets = opened.sockets.into_iter().enumerate().map(|(index, descriptor)| {
            let worker = own.then_some(index);
            Arc::new(Socket::new(
                descriptor,
                index,
                worker,
                opened.address.clone(),
                opened.receive_buffer_bytes,
            ))
        });
        Self {
            path: opened.path,
            sockets: sockets.collect(),
            workers: options.workers,
            local_address: opened.address.clone(),
            configured: options.distribution,
            distribution: opened.distribution,
            fallback: opened.fallback,
        }
    }

    /// Whether the file of a unix socket goes when the group closes. It does when the group made it.
    pub fn owns_file(&self) -> bool {
        self.path.as_ref().is_some_and(OwnedPath::is_ours)
    }

    /// Says who removes the file of a unix socket: one who has handed the sockets over leaves it to the other.
    pub fn set_owns_file(&self, owns: bool) {
        if let Some(path) = &self.path {
            path.set_ours(owns);
        }
    }

    /// Where it listens, with the port that was chosen.
    pub fn local_address(&self) -> &Address {
        &self.local_address
    }

    /// The distribution that was asked for.
    pub fn configured(&self) -> Distribution {
        self.configured
    }

    /// The distribution in use; never `auto`.
    pub fn distribution(&self) -> Distribution {
        self.distribution
    }

    /// Why the distribution in use is not the one asked for, or not the first choice of `auto`.
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// How many seats it has.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Its sockets in the order of their index.
    pub fn sockets(&self) -> &[Arc<Socket>] {
        &self.sockets
    }

    /// The place of worker `worker`, counted from 0. A seat may be taken more than once, as a restarted worker does.
    pub fn seat(&self, worker: usize) -> Result<Seat, ListenError> {
        if worker >= self.workers {
            return Err(ListenError::NoSuchSeat {
                address: self.local_address.clone(),
                worker,
                workers: self.workers,
            });
        }
        Ok(self.seat_at(worker))
    }

    /// Every seat, in the order of the workers.
    pub fn seats(&self) -> impl ExactSizeIterator<Item = Seat> + '_ {
        (0..self.workers).map(|worker| self.seat_at(worker))
    }

    fn seat_at(&self, worker: usize) -> Seat {
        // One socket per worker, or one for all.
        let socket = &self.sockets[worker % self.sockets.len()];
        Seat { worker, socket: Arc::clone(socket) }
    }
}

fn check_workers(options: &GroupOptions) -> Result<(), ListenError> {
    if options.workers == 0 || options.workers > WORKERS_MAX {
        return Err(ListenError::WorkerCount { workers: options.workers });
    }
    Ok(())
}

/// A worker's place in a group: who it is and the socket it takes connections or datagrams from.
#[derive(Debug, Clone)]
pub struct Seat {
    worker: usize,
    socket: Arc<Socket>,
}

impl Seat {
    /// The worker's number, from 0.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The socket to serve; its own, or the one that all share.
    pub fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }
}
