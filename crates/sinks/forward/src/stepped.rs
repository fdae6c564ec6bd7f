//! A sink that passes messages on over a simulated network: the same attempts, exchanges and groups as `link` has, without sockets,
//! tasks and time-outs.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bbq_sink::{Links, Now, OpenError, PendingGroup, Problem, Room, Settled, Sink, SinkSpec, Target};
use bbq_spool::{Group, LanePlace};
use bbq_storage::Storage;
use bbq_wire::StreamId;

use super::address::{Address, HostPort};
use super::attempts::{Attempts, Shared};
use super::exchange::{Ended, Exchange, closed_before_welcome};
use super::links::ForwardLinks;
use super::next_servers::{LinkState, NextServers};
use super::outstanding::OutstandingGroups;
use super::target::FORWARD;

/// What the simulation has in place of sockets: one connection at a time.
pub trait LinkNetwork: fmt::Debug + Send + Sync {
    /// Begins a connection to the server of this number, in place of the one before.
    fn connect(&self, server: usize);
    /// Writes some of the bytes, and returns how many.
    fn write(&self, bytes: &[u8]) -> usize;
    /// Appends what has arrived. Returns whether the connection has ended, and nothing more will arrive.
    fn read(&self, input: &mut Vec<u8>) -> bool;
    /// Gives up the connection.
    fn leave(&self);
    /// The id of a new link.
    fn new_id(&self) -> StreamId;
}

/// A sink of any name that passes messages on to so many servers. `id` is the link's, unless the cursor has one.
pub fn simulated_link(name: &str, servers: usize, id: StreamId, network: Arc<dyn LinkNetwork>) -> SinkSpec {
    let address = |server| Address::Tcp(HostPort { host: format!("server-{server}"), port: 1 });
    let addresses = (0..servers).map(address).collect();
    let servers = NextServers::without_options(addresses);
    SinkSpec::of_target(name, &FORWARD, Arc::new(SteppedTarget { servers, id, network }))
}

#[derive(Debug)]
struct SteppedTarget {
    servers: NextServers,
    id: StreamId,
    network: Arc<dyn LinkNetwork>,
}

impl Target for SteppedTarget {
    fn is_next_server(&self) -> bool {
        true
    }

    fn open(&self, _: &Arc<dyn Storage>, state: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let new = LinkState { id: self.id, server: None };
        let link = state.and_then(LinkState::decode).unwrap_or(new);
        let network = Arc::clone(&self.network);
        let shared = Shared::new(self.servers.clone(), &link, Arc::new(move || Ok(network.new_id())));
        let held = shared.held.clone();
        Ok(Box::new(SteppedSink {
            attempts: Attempts::new(&shared),
            shared,
            network: Arc::clone(&self.network),
            exchange: None,
            is_welcomed: false,
            submitted: VecDeque::new(),
            outstanding: OutstandingGroups::new(held),
            on_their_way: Vec::new(),
            progress: Arc::default(),
        }))
    }
}

/// As a [`LinkSink`](bbq_sink::LinkSink) with a [`Link`](super::link::Link).
struct SteppedSink {
    shared: Shared,
    attempts: Attempts,
    network: Arc<dyn LinkNetwork>,
    /// `None` while there is no connection.
    exchange: Option<Exchange>,
    is_welcomed: bool,
    /// Groups that the link has not taken.
    submitted: VecDeque<PendingGroup>,
    outstanding: OutstandingGroups,
    /// The places behind the groups on their way, and their bytes.
    on_their_way: Vec<(LanePlace, usize)>,
    progress: Arc<AtomicU64>,
}

impl SteppedSink {
    fn room(&self) -> Room {
        let bytes: usize = self.on_their_way.iter().map(|(_, bytes)| bytes).sum();
        let is_free = self.on_their_way.len() < ForwardLinks::GROUPS_MAX && bytes < ForwardLinks::BYTES_MAX;
        if is_free { Room::Free } else { Room::Full }
    }

    /// Does what a link does until it has to wait.
    fn proceed(&mut self, unix_ns: u64) -> Result<(), Ended> {
        let exchange = self.exchange.get_or_insert_with(|| {
            self.network.connect(self.attempts.server());
            self.is_welcomed = false;
            Exchange::new(self.attempts.hello(unix_ns))
        });
        let wrote = self.network.write(exchange.unsent());
        exchange.wrote(wrote);
        let is_over = self.network.read(&mut exchange.input);
        if !self.is_welcomed {
            if !exchange.welcome(&mut self.outstanding)? {
                return if is_over { Err(closed_before_welcome().into()) } else { Ok(()) };
            }
            self.is_welcomed = true;
            self.attempts.welcomed();
        }
        self.submitted.drain(..).for_each(|group| self.outstanding.push(group));
        exchange.hear(&mut self.outstanding)?;
        if is_over {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if exchange.unsent().is_empty() {
            exchange.fill(&mut self.outstanding);
            let wrote = self.network.write(exchange.unsent());
            exchange.wrote(wrote);
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.exchange = None;
        self.network.leave();
    }
}

impl Sink for SteppedSink {
    fn submit(&mut self, group: Group, begun: u64, _now: Now) -> Result<Room, Problem> {
        self.on_their_way.push((group.until(), group.bytes()));
        self.submitted.push_back(PendingGroup::new(group, begun, Arc::clone(&self.progress)));
        Ok(self.room())
    }

    fn settle(&mut self, now: Now, settled: &mut Vec<Settled>) -> Result<Room, Problem> {
        if self.exchange.is_none() && self.on_their_way.is_empty() {
            return Ok(self.room());
        }
        let unix_ns = now.wall.timestamp_nanos_opt().and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0);
        let ended = self.proceed(unix_ns);
        while let Some(group) = self.outstanding.settle() {
            self.on_their_way.retain(|(until, _)| *until != group.until);
            settled.push(group);
        }
        if let Err(ended) = ended {
            let ended = match &self.exchange {
                Some(exchange) => exchange.ended(ended),
                None => ended,
            };
            self.leave();
            if matches!(ended, Ended::Failed { .. }) {
                self.outstanding.release();
            }
            let is_idle = self.outstanding.is_empty() && self.submitted.is_empty();
            let problem = self.attempts.ended(ended, is_idle);
            if let Some(problem) = problem.filter(|_| !self.on_their_way.is_empty()) {
                return Err(problem);
            }
        }
        Ok(self.room())
    }

    fn gathers_for(&self) -> Duration {
        ForwardLinks::GATHERS_FOR
    }

    fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    fn state(&self) -> String {
        self.shared.state()
    }

    fn may_give_up(&self) -> bool {
        true
    }

    fn roll_back(&mut self) -> io::Result<()> {
        self.leave();
        self.attempts = Attempts::new(&self.shared);
        self.outstanding = OutstandingGroups::new(self.shared.held.clone());
        self.submitted.clear();
        self.on_their_way.clear();
        Ok(())
    }
}

impl Drop for SteppedSink {
    fn drop(&mut self) {
        self.network.leave();
    }
}
