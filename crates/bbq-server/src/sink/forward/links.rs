//! What the links to the next server share.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bbq_wire::StreamId;
use tokio::sync::mpsc::{Receiver, Sender};

use super::address::Address;
use super::connection::Connector;
use super::link::Link;
use super::next_servers::{LinkState, NextServers};
use super::outstanding::OutstandingGroups;
use super::rotation::Rotation;
use crate::sink::delivery::PendingGroup;
use crate::sink::interface::Settled;
use crate::sink::link_sink::Links;
use crate::sink::resolver::Resolver;

/// See the module.
pub(super) struct ForwardLinks {
    servers: Arc<NextServers>,
    /// The number of the server in use.
    current: Arc<AtomicUsize>,
    resolver: Resolver,
    id: StreamId,
    epoch: Arc<AtomicU64>,
}

impl ForwardLinks {
    /// Goes on with the server that the state names, or begins with the first one.
    pub(super) fn new(servers: NextServers, link: &LinkState) -> io::Result<ForwardLinks> {
        let used = link.server.as_ref();
        let is_used = |address: &Address| used.is_some_and(|used| *used == address.to_string());
        let current = servers.addresses.iter().position(is_used).unwrap_or(0);
        Ok(ForwardLinks {
            servers: Arc::new(servers),
            current: Arc::new(AtomicUsize::new(current)),
            resolver: Resolver::start()?,
            id: link.id,
            epoch: Arc::default(),
        })
    }
}

impl Links for ForwardLinks {
    /// The next server syncs some groups while others are on the wire.
    const GROUPS_MAX: usize = 8;
    /// Some 150 MB a second at a round trip of 100 ms, with the next server's sync.
    const BYTES_MAX: usize = 32 * 1024 * 1024;
    /// The next server need not have a connection for each server that may send something.
    const IS_EAGER: bool = false;
    /// A client may wait until the next server has its message.
    const GATHERS_FOR: Duration = Duration::ZERO;

    type Link = Link;

    fn link(&self, groups: Receiver<PendingGroup>, settled: Sender<Settled>) -> Link {
        let NextServers { addresses, tls, .. } = &*self.servers;
        Link {
            servers: Arc::clone(&self.servers),
            rotation: Rotation::new(addresses.len(), Arc::clone(&self.current)),
            connector: Connector::new(self.resolver.clone(), tls.clone()),
            id: self.id,
            epoch: Arc::clone(&self.epoch),
            groups,
            settled,
            outstanding: OutstandingGroups::default(),
            failures: Vec::new(),
        }
    }

    fn state(&self) -> String {
        let NextServers { addresses, .. } = &*self.servers;
        let used = (addresses.len() > 1).then(|| addresses[self.current.load(Ordering::Relaxed)].to_string());
        LinkState { id: self.id, server: used }.encode()
    }
}
