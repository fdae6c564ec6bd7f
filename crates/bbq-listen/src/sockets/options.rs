//! What a group is asked to be.

use crate::{Address, Distribution, Steering};

/// Connections that may wait on each socket of a group by default. The system grants at most
/// `net.core.somaxconn`, which is 4,096 since Linux 5.4.
pub const BACKLOG_DEFAULT: u32 = 4096;

/// Receive buffer asked for by default: a burst of 3,000 datagrams of 1 KiB while the worker is busy
/// elsewhere. The system grants at most `net.core.rmem_max`.
pub const RECEIVE_BUFFER_BYTES_DEFAULT: u32 = 4 * 1024 * 1024;

/// What to open.
#[derive(Debug, Clone)]
pub struct GroupOptions {
    /// Where. Port 0 lets the system choose one, the same for the whole group.
    pub address: Address,
    /// How connections or datagrams are spread over the workers.
    pub distribution: Distribution,
    /// Which worker a sender gets, for `reuseport`.
    pub steering: Steering,
    /// How many workers: 1 to [`WORKERS_MAX`](crate::WORKERS_MAX).
    pub workers: usize,
    /// Connections that may wait on each socket. Only for tcp and unix.
    pub backlog: u32,
    /// Receive buffer to ask for, in bytes, for each socket; `None` is [`RECEIVE_BUFFER_BYTES_DEFAULT`]. Only for udp and
    /// unixgram.
    pub receive_buffer_bytes: Option<u32>,
}

impl GroupOptions {
    /// `address` for `workers`, everything else by default: distribution `auto`, steering `hash`, backlog
    /// [`BACKLOG_DEFAULT`].
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
