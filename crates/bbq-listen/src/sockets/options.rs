//! The options of a group.

use crate::{Address, Distribution, Steering};

/// The default backlog of each socket of a group. The system grants at most
/// `net.core.somaxconn`, which is 4,096 since Linux 5.4.
pub const BACKLOG_DEFAULT: u32 = 4096;

/// The default receive buffer: room for a burst of 3,000 datagrams of 1 KiB while the worker is busy. The system grants at most
/// `net.core.rmem_max`.
pub const RECEIVE_BUFFER_BYTES_DEFAULT: u32 = 4 * 1024 * 1024;

/// The options of a group.
#[derive(Debug, Clone)]
pub struct GroupOptions {
    /// The address. With port 0 the system chooses one port for the whole group.
    pub address: Address,
    /// How connections or datagrams are spread over the workers.
    pub distribution: Distribution,
    /// How the worker of a sender is chosen, for `reuseport`.
    pub steering: Steering,
    /// How many workers: 1 to [`WORKERS_MAX`](crate::WORKERS_MAX).
    pub workers: usize,
    /// The backlog of each socket. Only for tcp and unix.
    pub backlog: u32,
    /// The receive buffer of each socket, in bytes; `None` is [`RECEIVE_BUFFER_BYTES_DEFAULT`]. Only for udp and
    /// unixgram.
    pub receive_buffer_bytes: Option<u32>,
}

impl GroupOptions {
    /// The defaults: distribution `auto`, steering `hash`, backlog [`BACKLOG_DEFAULT`].
    pub fn new(address: Address, workers: usize) -> Self {
        Self {
            address,
            distribution: Distribution::Auto,
            steering: Steering::Hash,
            workers,
            backlog: BACKLOG_DEFAULT,
            receive_buffer_bytes: None,
        }
    }
}
