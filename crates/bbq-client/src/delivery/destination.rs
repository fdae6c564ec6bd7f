//! A destination: servers that share one progress.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{AdaptiveReconnect, ServerAddress, ServerProgress};

pub(crate) struct Destination {
    pub(crate) index: usize,
    /// The preferred server is the first.
    pub(crate) servers: Vec<ServerAddress>,
    /// The ids of the servers in a spool ([`ServerAddress::id`]).
    pub(crate) ids: Vec<u32>,
    reconnect: Mutex<AdaptiveReconnect>,
    pub(crate) reconnects: AtomicU64,
    pub(crate) connected: AtomicBool,
    /// Index of the server that is connected or was tried last.
    pub(crate) current: AtomicUsize,
}

impl Destination {
    pub(crate) fn new(
        index: usize,
        servers: Vec<ServerAddress>,
        reconnect: AdaptiveReconnect,
    ) -> Destination {
        Destination {
            index,
            ids: servers.iter().map(ServerAddress::id).collect(),
            servers,
            reconnect: Mutex::new(reconnect),
            reconnects: AtomicU64::new(0),
            connected: AtomicBool::new(false),
            current: AtomicUsize::new(0),
        }
    }

    pub(crate) fn reconnect(&self) -> MutexGuard<'_, AdaptiveReconnect> {
        self.reconnect.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn progress(&self, acknowledged_sequence: u64, missing: u64) -> ServerProgress {
        ServerProgress {
            server: self.servers[self.current.load(Ordering::Relaxed)].to_string(),
            connected: self.connected.load(Ordering::Relaxed),
            acknowledged_sequence,
            missing,
            reconnects: self.reconnects.load(Ordering::Relaxed),
            reconnect: self.reconnect().now(),
        }
    }
}
