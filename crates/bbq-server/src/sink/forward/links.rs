//! What the links to the next server share.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bbq_wire::StreamId;
use tokio::sync::mpsc::{Receiver, Sender};

use super::link::{Link, OutstandingGroups};
use super::next_server::{NextServer, state_of};
use crate::sink::delivery::PendingGroup;
use crate::sink::interface::Settled;
use crate::sink::link_sink::Links;
use crate::sink::resolver::Resolver;

/// See the module.
pub(super) struct ForwardLinks {
    server: NextServer,
    resolver: Resolver,
    id: StreamId,
    epoch: Arc<AtomicU64>,
}

impl ForwardLinks {
    pub(super) fn new(server: NextServer, id: StreamId) -> io::Result<ForwardLinks> {
        Ok(ForwardLinks { server, resolver: Resolver::start()?, id, epoch: Arc::default() })
    }
}

impl Links for ForwardLinks {
    /// The next server syncs some groups while others are on the wire.
    const GROUPS_MAX: usize = 8;
    const BYTES_MAX: usize = usize::MAX;
    /// The next server need not have a connection for each server that may send something.
    const IS_EAGER: bool = false;

    type Link = Link;

    fn link(&self, groups: Receiver<PendingGroup>, settled: Sender<Settled>) -> Link {
        Link {
            server: self.server.clone(),
            resolver: self.resolver.clone(),
            id: self.id,
            epoch: Arc::clone(&self.epoch),
            groups,
            settled,
            outstanding: OutstandingGroups::default(),
        }
    }

    fn state(&self) -> String {
        state_of(self.id)
    }
}
