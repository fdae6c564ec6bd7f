//! The sink takes groups and returns settled groups. Between them is a link, which is started again when it fails.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bbq_spool::{Group, Progress};
use bbq_wire::StreamId;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{JoinError, JoinHandle};

use super::address::Address;
use super::connection::Connector;
use super::link::Link;
use super::next_servers::{LinkState, NextServers};
use super::outstanding::OutstandingGroups;
use super::rotation::Rotation;
use crate::sink::delivery::PendingGroup;
use crate::sink::interface::{Now, Problem, Room, Settled, Sink};
use crate::sink::resolver::Resolver;

/// Most groups that are on their way: the next server syncs some of them while others are on the wire. Memory is bounded by this
/// many groups.
const GROUPS_MAX: usize = 8;

type Finished = Result<(Link, io::Error), JoinError>;

/// The groups that are on their way, and the link that takes them, on a runtime of the sink's thread.
pub(super) struct ForwardSink {
    servers: Arc<NextServers>,
    /// The number of the server in use.
    current: Arc<AtomicUsize>,
    resolver: Resolver,
    id: StreamId,
    epoch: Arc<AtomicU64>,
    groups: Sender<PendingGroup>,
    settled: Receiver<Settled>,
    /// Groups that were settled while this sink waited.
    ready: Vec<Settled>,
    outstanding: usize,
    /// How many messages were settled.
    progress: Arc<AtomicU64>,
    /// The link while it has no connection. The next call of `settle` connects, if there is something to send.
    waiting: Option<Link>,
    running: Option<JoinHandle<(Link, io::Error)>>,
    /// The end of the link's task, if the task ended while this sink waited.
    finished: Option<Finished>,
    runtime: Runtime,
}

impl ForwardSink {
    /// Goes on with the server that the state names, or begins with the first one.
    pub(super) fn new(servers: NextServers, link: &LinkState) -> io::Result<ForwardSink> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let used = link.server.as_ref();
        let is_used = |address: &Address| used.is_some_and(|used| *used == address.to_string());
        let current = servers.addresses.iter().position(is_used).unwrap_or(0);
        let (servers, current) = (Arc::new(servers), Arc::new(AtomicUsize::new(current)));
        let (resolver, epoch) = (Resolver::start()?, Arc::new(AtomicU64::new(0)));
        let (link, groups, settled) = new_link(&servers, &current, &resolver, link.id, &epoch);
        let id = link.id;
        Ok(ForwardSink {
            servers,
            current,
            resolver,
            id,
            epoch,
            groups,
            settled,
            ready: Vec::new(),
            outstanding: 0,
            progress: Arc::default(),
            waiting: Some(link),
            running: None,
            finished: None,
            runtime,
        })
    }

    fn room(&self) -> Room {
        if self.outstanding < GROUPS_MAX { Room::Free } else { Room::Full }
    }

    /// Handles the end of the link's task. A connection that ends while nothing is on its way is no problem.
    fn ended(&mut self, finished: Finished) -> Result<Room, Problem> {
        match finished {
            Ok((link, error)) => {
                self.waiting = Some(link);
                if self.outstanding == 0 { Ok(self.room()) } else { Err(Problem::Retry(error)) }
            }
            // The link is gone with its groups: they are submitted again after `roll_back`.
            Err(panic) => Err(Problem::Failed(io::Error::other(panic))),
        }
    }
}

fn new_link(
    servers: &Arc<NextServers>,
    current: &Arc<AtomicUsize>,
    resolver: &Resolver,
    id: StreamId,
    epoch: &Arc<AtomicU64>,
) -> (Link, Sender<PendingGroup>, Receiver<Settled>) {
    let (groups, groups_of_link) = channel(GROUPS_MAX);
    let (settled_of_link, settled) = channel(GROUPS_MAX);
    let link = Link {
        servers: Arc::clone(servers),
        rotation: Rotation::new(servers.addresses.len(), Arc::clone(current)),
        connector: Connector::new(resolver.clone(), servers.tls.clone()),
        id,
        epoch: Arc::clone(epoch),
        groups: groups_of_link,
        settled: settled_of_link,
        outstanding: OutstandingGroups::default(),
        failures: Vec::new(),
    };
    (link, groups, settled)
}

impl Sink for ForwardSink {
    fn submit(&mut self, group: Group, begun: u64, _now: Now) -> Result<Room, Problem> {
        self.outstanding += 1;
        // The channel has room, because there is room for the group. The link exists until this sink is rolled back.
        let pending = PendingGroup::new(group, begun, Arc::clone(&self.progress));
        self.groups.try_send(pending).map_err(|_| Problem::Failed(io::Error::other("the link has ended")))?;
        Ok(self.room())
    }

    fn settle(&mut self, _now: Now, settled: &mut Vec<Settled>) -> Result<Room, Problem> {
        let runtime = &self.runtime;
        if let Some(link) = self.waiting.take_if(|_| self.outstanding > 0) {
            self.running = Some(runtime.spawn(link.run()));
        }
        // The link proceeds as far as it can without waiting.
        runtime.block_on(tokio::task::yield_now());
        while let Ok(ready) = self.settled.try_recv() {
            self.ready.push(ready);
        }
        self.outstanding -= self.ready.len();
        settled.append(&mut self.ready);
        if self.finished.is_none()
            && let Some(running) = self.running.take_if(|running| running.is_finished())
        {
            self.finished = Some(runtime.block_on(running));
        }
        match self.finished.take() {
            Some(finished) => self.ended(finished),
            None => Ok(self.room()),
        }
    }

    /// A client may wait until the next server has its message.
    fn gathers_for(&self) -> Duration {
        Duration::ZERO
    }

    fn wait(&mut self, progress: &Progress, seen: u64, patience: Duration) {
        let Some(running) = &mut self.running else { return progress.wait(seen, patience) };
        let (settled, finished, ready) = (&mut self.settled, &mut self.finished, &mut self.ready);
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                Some(settled) = settled.recv() => ready.push(settled),
                ended = running => *finished = Some(ended),
                () = progress.changed(seen) => {}
                () = tokio::time::sleep(patience) => {}
            }
        });
        if self.finished.is_some() {
            self.running = None;
        }
    }

    fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    fn state(&self) -> String {
        let NextServers { addresses, .. } = &*self.servers;
        let used = (addresses.len() > 1).then(|| addresses[self.current.load(Ordering::Relaxed)].to_string());
        LinkState { id: self.id, server: used }.encode()
    }

    fn may_give_up(&self) -> bool {
        true
    }

    fn roll_back(&mut self) -> io::Result<()> {
        if let Some(running) = self.running.take() {
            running.abort();
        }
        let (link, groups, settled) =
            new_link(&self.servers, &self.current, &self.resolver, self.id, &self.epoch);
        (self.waiting, self.groups, self.settled) = (Some(link), groups, settled);
        self.ready.clear();
        self.finished = None;
        self.outstanding = 0;
        Ok(())
    }
}
