//! What the links to the next server share.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bbq_sink::{Links, PendingGroup, Resolver, SetAside, Settled};
use tokio::sync::mpsc::{Receiver, Sender};

use super::attempts::{Attempts, Shared};
use super::connection::Connector;
use super::link::Link;
use super::next_servers::{LinkState, NextServers};
use super::outstanding::OutstandingGroups;

/// See the module.
pub(super) struct ForwardLinks {
    shared: Shared,
    resolver: Resolver,
}

impl ForwardLinks {
    /// Goes on with the server that the state names, or begins with the first one.
    pub(super) fn new(servers: NextServers, link: &LinkState) -> io::Result<ForwardLinks> {
        let new_id = Arc::new(|| LinkState::new().map(|link| link.id));
        Ok(ForwardLinks { shared: Shared::new(servers, link, new_id), resolver: Resolver::start()? })
    }
}

impl Links for ForwardLinks {
    /// A lane has a group in a millisecond at most: as many as two lanes get in half a second, so that a far server is sent what comes in.
    const GROUPS_MAX: usize = 1024;
    /// Some 150 MB a second at a round trip of 100 ms, with the next server's sync.
    const BYTES_MAX: usize = 32 * 1024 * 1024;
    /// As many again may wait with held batches.
    const SET_ASIDE_MAX: SetAside = SetAside { groups: Self::GROUPS_MAX, bytes: Self::BYTES_MAX };
    /// The next server need not have a connection for each server that may send something.
    const IS_EAGER: bool = false;
    /// A client may wait until the next server has its message.
    const GATHERS_FOR: Duration = Duration::ZERO;

    type Link = Link;

    fn link(&self, groups: Receiver<PendingGroup>, settled: Sender<Settled>) -> Link {
        Link {
            attempts: Attempts::new(&self.shared),
            connector: Connector::new(self.resolver.clone(), self.shared.servers.tls.clone()),
            groups,
            settled,
            outstanding: OutstandingGroups::new(self.shared.held.clone()),
        }
    }

    fn set_aside(&self) -> SetAside {
        self.shared.held.aside()
    }

    fn standing_problem(&self) -> Option<String> {
        self.shared.held.problem()
    }

    fn state(&self) -> String {
        self.shared.state()
    }
}
