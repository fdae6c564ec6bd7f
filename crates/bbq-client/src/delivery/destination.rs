//! Servers that share one progress: which one is connected, and how they are tried again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{AdaptiveReconnect, ServerAddress, ServerProgress};

/// Servers that share one progress.
pub(crate) struct Destination {
    pub(crate) index: usize,
    /// The preferred one first.
    servers: Vec<ServerAddress>,
    /// What a spool knows them by.
    ids: Vec<u32>,
    reconnect: Mutex<AdaptiveReconnect>,
    pub(crate) reconnects: AtomicU64,
    pub(crate) connected: AtomicBool,
    /// Which server is connected, or was tried last.
    pub(crate) present: AtomicU64,
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
            present: AtomicU64::new(0),
        }
    }

    pub(crate) fn reconnect(&self) -> MutexGuard<'_, AdaptiveReconnect> {
        self.reconnect.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub(crate) fn servers(&self) -> usize {
        self.servers.len()
    }

    pub(crate) fn address(&self, server: usize) -> &ServerAddress {
        &self.servers[server]
    }

    pub(crate) fn id(&self, server: usize) -> u32 {
        self.ids[server]
    }

    /// The server that is connected, or was tried last.
    pub(crate) fn present(&self) -> usize {
        self.present.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    pub(crate) fn progress(&self, acknowledged_sequence: u64, missing: u64) -> ServerProgress {
        ServerProgress {
            server: self.servers[self.present()].to_string(),
            connected: self.connected.load(Ordering::Relaxed),
            acknowledged_sequence,
            missing,
            reconnects: self.reconnects(),
            reconnect: self.reconnect().now(),
        }
    }
}
