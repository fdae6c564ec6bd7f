//! The options of a client.

use std::time::Duration;

use bbq_client::Compress;
use bbq_client::simulated::Sizes;
use bbq_wire::session::AckLevel;

use crate::bug::Bug;
use crate::servers::Servers;

/// The directory of a client's spool, on its own disk.
pub(crate) const SPOOL: &str = "/client/spool";

/// Options of a client, and of its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientOptions {
    pub(crate) servers: Servers,
    pub(crate) level: AckLevel,
    pub(crate) has_spool: bool,
    pub(crate) queue_bytes_max: usize,
    pub(crate) batch_bytes: usize,
    pub(crate) sizes: Sizes,
    pub(crate) compress: Compress,
    /// The oldest records are dropped when there is no room for new ones.
    pub(crate) drops_oldest: bool,
    pub(crate) delivery_timeout: Duration,
    pub(crate) record_bytes_max: u64,
    /// The application makes a record once in this many steps.
    pub(crate) one_record_in: u64,
    /// The sender queues new records once in this many steps.
    pub(crate) collects_one_in: u64,
    /// It shows a token, whose name is its own.
    pub(crate) has_token: bool,
    pub(crate) bug: Option<Bug>,
}
