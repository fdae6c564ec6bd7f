//! The attempts of a link: which server the next connection goes to, what its hello says, and what follows from its end. No socket, no
//! clock, no task, so that the simulation runs the same code.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bbq_sink::Problem;
use bbq_wire::StreamId;
use bbq_wire::session::{AckLevel, Hello};
use tracing::warn;

use super::address::Address;
use super::exchange::Ended;
use super::held::HeldCounts;
use super::next_servers::{LinkState, NextServers};
use super::rotation::Rotation;

/// What the attempts of all links of a sink have in common.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) servers: Arc<NextServers>,
    /// The number of the server in use.
    pub(super) current: Arc<AtomicUsize>,
    pub(super) held: HeldCounts,
    /// The stream of the link: another connection with the same stream takes over.
    id: Arc<Mutex<StreamId>>,
    new_id: NewId,
    /// The epoch of the last hello.
    epoch: Arc<AtomicU64>,
}

/// Makes the id of a new link.
pub(super) type NewId = Arc<dyn Fn() -> io::Result<StreamId> + Send + Sync>;

impl Shared {
    /// Goes on with the server that the state names, or begins with the first one.
    pub(super) fn new(servers: NextServers, link: &LinkState, new_id: NewId) -> Shared {
        let used = link.server.as_ref();
        let is_used = |address: &Address| used.is_some_and(|used| *used == address.to_string());
        let current = servers.addresses.iter().position(is_used).unwrap_or(0);
        Shared {
            servers: Arc::new(servers),
            current: Arc::new(AtomicUsize::new(current)),
            held: HeldCounts::default(),
            id: Arc::new(Mutex::new(link.id)),
            new_id,
            epoch: Arc::default(),
        }
    }

    /// What the cursor remembers.
    pub(super) fn state(&self) -> String {
        let NextServers { addresses, .. } = &*self.servers;
        let used = (addresses.len() > 1).then(|| addresses[self.current.load(Ordering::Relaxed)].to_string());
        LinkState { id: *self.id(), server: used }.encode()
    }

    fn id(&self) -> MutexGuard<'_, StreamId> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on under another name. The next server knows the messages by their own streams, so this costs nothing.
    fn rename(&self) {
        match (self.new_id)() {
            Ok(id) => {
                *self.id() = id;
                warn!(
                    "another server uses the name of this link, probably on a copy of this data directory; passing messages on under a \
                     new name"
                );
            }
            Err(error) => warn!(%error, "cannot create a new name for the link"),
        }
    }
}

/// See the module.
pub(super) struct Attempts {
    shared: Shared,
    rotation: Rotation,
    /// Why servers failed since the last welcome, with their addresses.
    failures: Vec<String>,
}

impl Attempts {
    pub(super) fn new(shared: &Shared) -> Attempts {
        let shared = shared.clone();
        let rotation = Rotation::new(shared.servers.addresses.len(), Arc::clone(&shared.current));
        Attempts { shared, rotation, failures: Vec::new() }
    }

    /// The number of the server in use.
    pub(super) fn server(&self) -> usize {
        self.rotation.current()
    }

    /// The address of the server in use.
    pub(super) fn address(&self) -> &Address {
        &self.shared.servers.addresses[self.rotation.current()]
    }

    /// How long a server may leave a batch that makes no progress without an acknowledgement.
    pub(super) fn timeout(&self) -> Duration {
        self.shared.servers.timeout
    }

    /// The first bytes of a connection. `unix_ns` is the wall clock.
    pub(super) fn hello(&self, unix_ns: u64) -> Vec<u8> {
        let Shared { servers, epoch, .. } = &self.shared;
        let last = epoch.load(Ordering::Relaxed);
        let next = (unix_ns / 1_000_000).max(last + 1);
        epoch.store(next, Ordering::Relaxed);
        let client = concat!("bbq ", env!("CARGO_PKG_VERSION"), ", passing on").to_owned();
        let token = servers.token.clone();
        let hello = Hello {
            stream: *self.shared.id(),
            ack: AckLevel::Durable,
            client,
            epoch: next,
            relays: true,
            token,
            progress: None,
        };
        let mut frame = Vec::new();
        hello.encode(&mut frame);
        frame
    }

    /// The server in use has welcomed the link.
    pub(super) fn welcomed(&mut self) {
        if !self.failures.is_empty() {
            let why = self.failures.join("; ");
            warn!(server = %self.address(), why, "passing messages on to another server");
            self.failures.clear();
        }
    }

    /// Handles the end of a connection, or that it could not be made. `is_idle` says that nothing is on its way. Returns the problem if
    /// a pause is due, and `None` if the next connection is to be made at once.
    pub(super) fn ended(&mut self, ended: Ended, is_idle: bool) -> Option<Problem> {
        let Ended::Failed { error, has_taken, is_taken_over } = ended else { return None };
        if is_taken_over {
            self.shared.rename();
        }
        self.failures.push(format!("{}: {error}", self.address()));
        // A connection that ends while nothing is on its way says nothing about the server.
        if is_idle || !self.rotation.fail(has_taken) {
            let error = io::Error::new(error.kind(), self.failures.join("; "));
            self.failures.clear();
            return Some(Problem::Retry(error));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::address::HostPort;
    use super::*;

    #[test]
    fn a_link_whose_name_another_one_has_takes_a_new_name() {
        let address = Address::Tcp(HostPort { host: "next".to_owned(), port: 1 });
        let servers = NextServers::without_options(vec![address]);
        let link = LinkState { id: StreamId([1; 16]), server: None };
        let shared = Shared::new(servers, &link, Arc::new(|| Ok(StreamId([2; 16]))));
        let mut attempts = Attempts::new(&shared);
        let mut fail = |is_taken_over| {
            let error = io::Error::other("refused");
            attempts.ended(Ended::Failed { error, has_taken: false, is_taken_over }, false);
            shared.state()
        };
        assert_eq!(fail(false), link.encode());
        assert_eq!(fail(true), LinkState { id: StreamId([2; 16]), server: None }.encode());
    }
}
