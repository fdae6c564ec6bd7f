//! A world of several servers: clients with one server or two, servers that pass on to the next one, and the last server, whose outputs
//! count.
//!
//! ```text
//! clients --> server 0 --sink bbq:--> server 2 --sink bbq:--> server 3 -> files
//!       \---> server 1 --sink bbq:------^                 each with its own disk, page cache and clock
//! ```
//!
//! The check: what a client was told is durable, by any server, comes out of the last one, once, and in order where the way of the
//! messages was one (see [`plan::TiersPlan`]). As in the world of one server, faults end before the check.

mod copies;
mod faults;
mod node;
mod older_disk;
mod plan;
mod set_back;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bbq_sink::Goal;
use bbq_spool::SteppedTime;

use crate::bug::Bug;
use crate::client::{Around, Client};
use crate::disk::SimDisk;
use crate::history::{History, Violation};
use crate::network::Network;
use crate::note;
use crate::random::Random;
use crate::trace::Trace;
use crate::world::Summary;
use node::Node;
use plan::TiersPlan;

/// The most rounds to drain everything after all faults have ended: the messages wait at each of several servers.
const ROUNDS_MAX: u64 = 4000;
/// Wall clocks begin at this time (UTC, 2027): far enough from 1970 that they can be set back.
const BEGIN_UNIX_NS: u64 = 1_799_971_200_000_000_000;

pub(crate) struct Tiers {
    plan: TiersPlan,
    random: Random,
    /// The clock of the clients.
    time: Arc<SteppedTime>,
    clients: Vec<Client>,
    nodes: Vec<Node>,
    /// The server whose outputs count.
    last: usize,
    network: Network,
    history: History,
    trace: Trace,
    step: u64,
    /// The disk to which one is set back, or that is copied.
    earlier: Option<SimDisk>,
    /// Clients that may notice that a disk was set back or copied.
    unsure: BTreeSet<usize>,
    /// Clients of these whose machines lost power after that. One that had begun a new stream, as a server had forgotten the old one, may
    /// not know of it any more, and gives what it has its old numbers.
    renumbered: BTreeSet<usize>,
    /// The disk of the first client was set back below its files. Its machine does not lose power after that: see the limits in
    /// docs/RELIABILITY.md.
    is_below: bool,
}

impl Tiers {
    /// A world of a seed. With `sets_back`, a disk is set back in it.
    pub(crate) fn new(seed: u64, bug: Option<Bug>, sets_back: bool, is_traced: bool) -> Tiers {
        let mut random = Random::new(seed);
        let plan = TiersPlan::new(&mut random, bug, sets_back);
        let clients =
            plan.clients.iter().enumerate().map(|(index, options)| Client::new(index, *options, &mut random));
        let clients = clients.collect();
        let time = Arc::new(SteppedTime::default());
        time.unix_ns.store(BEGIN_UNIX_NS, Ordering::Relaxed);
        let nodes = plan.nodes.iter().enumerate();
        let nodes = nodes.map(|(index, plan)| Node::new(index, plan.clone(), BEGIN_UNIX_NS, &mut random));
        let nodes: Vec<Node> = nodes.collect();
        let mut trace = Trace::new(is_traced);
        note!(trace, "{plan:?}");
        let mut history = History::default();
        if !plan.has_one_way {
            history.expect_no_order();
        }
        let network = Network::default();
        Tiers {
            plan,
            random,
            time,
            clients,
            last: nodes.len() - 1,
            nodes,
            network,
            history,
            trace,
            step: 0,
            earlier: None,
            unsure: BTreeSet::new(),
            renumbered: BTreeSet::new(),
            is_below: false,
        }
    }

    /// Runs to the end. The error is a broken promise.
    pub(crate) fn run(&mut self) -> Result<Summary, Violation> {
        while self.step < self.plan.steps {
            self.step += 1;
            self.trace.at(self.step);
            let most = if self.random.one_in(50) { 20_000_000 } else { 300_000 };
            let passed = self.random.below(most);
            self.pass_time(passed);
            self.fault();
            self.set_back();
            self.act()?;
            self.look();
        }
        self.end_faults();
        self.drain()?;
        self.check()?;
        Ok(Summary {
            steps: self.step,
            acknowledged: self.history.acknowledged() as u64,
            starts: self.nodes.iter().map(|node| node.starts).sum(),
            digest: self.random.next() ^ self.time.now_ns.load(Ordering::Relaxed),
        })
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    fn pass_time(&self, ns: u64) {
        self.time.now_ns.fetch_add(ns, Ordering::Relaxed);
        self.time.unix_ns.fetch_add(ns, Ordering::Relaxed);
        self.nodes.iter().for_each(|node| node.pass_time(ns));
    }

    /// A random part acts.
    fn act(&mut self) -> Result<(), Violation> {
        let weights = [self.plan.client_weight * 3, 8, 6, 5, self.plan.sink_weight * 2, 3];
        let mut choice = self.random.below(weights.iter().sum());
        let mut who = 0;
        while choice >= weights[who] {
            choice -= weights[who];
            who += 1;
        }
        let node = self.random.index(self.nodes.len());
        match who {
            0 => {
                let client = self.random.index(self.clients.len());
                return self.act_of_client(client);
            }
            1 => self.act_of_network(),
            2 => {
                if let Some(number) = self.network.any(&mut self.random)
                    && let Some(connection) = self.network.get(number)
                {
                    let server = connection.server;
                    self.nodes[server].serve(number, &mut self.network, &mut self.trace);
                }
            }
            3 => self.act_of_lane(node),
            4 => self.act_of_sink(node),
            _ => self.act_of_control(node),
        }
        Ok(())
    }

    fn around(&mut self, client: usize) -> (&mut Client, Around<'_>) {
        let is_unsure = self.unsure.contains(&client);
        let around = Around {
            network: &mut self.network,
            history: &mut self.history,
            random: &mut self.random,
            trace: &mut self.trace,
            time: &self.time,
            may_forget: is_unsure,
            is_set_back: is_unsure,
        };
        (&mut self.clients[client], around)
    }

    fn act_of_client(&mut self, client: usize) -> Result<(), Violation> {
        let (client, mut around) = self.around(client);
        if !client.is_running() {
            client.start(&mut around);
            return Ok(());
        }
        if client.wants_to_make(around.random) {
            client.make(&mut around)?;
        }
        client.step(&mut around)
    }

    /// Bytes arrive. A machine without a server refuses the connection.
    fn act_of_network(&mut self) {
        let Some(number) = self.network.any(&mut self.random) else { return };
        let Some(connection) = self.network.get(number) else { return };
        if self.nodes[connection.server].server.is_none() {
            self.network.cut(number, &mut self.random);
            self.network.finish(number);
            return;
        }
        let most = if self.random.one_in(3) { 40 } else { 4000 };
        let bytes = self.random.index(most) + 1;
        self.network.deliver(number, bytes);
    }

    fn act_of_lane(&mut self, node: usize) {
        let Some(server) = &mut self.nodes[node].server else { return };
        let lane = self.random.index(server.lanes());
        if self.random.one_in(2) {
            server.write(lane, &mut self.trace);
        } else {
            server.settle(lane, &mut self.network, &mut self.trace);
        }
    }

    fn act_of_sink(&mut self, node: usize) {
        let Some(server) = &self.nodes[node].server else { return };
        let sinks = server.sinks.len();
        if sinks == 0 {
            return;
        }
        let sink = self.random.index(sinks);
        // A hold without a stop happens in a reload that is cancelled.
        let goal = if self.random.one_in(12) { Goal::Hold } else { Goal::Deliver };
        self.nodes[node].deliver(sink, goal, &mut self.network, &mut self.trace);
    }

    fn act_of_control(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        match &mut node.server {
            None if node.away_until > self.step => {}
            None => node.start(&mut self.trace),
            Some(server) => match self.random.below(12) {
                0..=1 => server.ask(true),
                2..=3 => server.ask(false),
                4 => server.put_late_checkpoint(),
                _ => server.retire(&mut self.trace),
            },
        }
    }

    /// Notices servers that have ended in the last action.
    fn look(&mut self) {
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            node.note_lost_order(&mut self.history);
            if node.look(&mut self.network, &mut self.random, &mut self.trace) {
                self.stay_away(index);
            }
        }
    }

    /// Lets all parts act in turn, until nothing is left to do.
    fn drain(&mut self) -> Result<(), Violation> {
        for round in 0..ROUNDS_MAX {
            self.step += 1;
            self.trace.at(self.step);
            self.pass_time(1_000_000);
            for client in 0..self.clients.len() {
                let (client, mut around) = self.around(client);
                if !client.is_running() {
                    client.start(&mut around);
                }
                // This makes even a quiet client connect, so that its records are acknowledged.
                if round == 0 {
                    client.make(&mut around)?;
                }
                client.step(&mut around)?;
            }
            for number in self.network.numbers() {
                self.network.deliver(number, usize::MAX);
            }
            for index in 0..self.nodes.len() {
                let node = &mut self.nodes[index];
                if node.server.is_none() {
                    node.start(&mut self.trace);
                }
                node.round(&mut self.network, &mut self.trace);
            }
            self.look();
            if self.clients.iter().all(Client::is_drained) && self.nodes.iter().all(Node::is_drained) {
                return Ok(());
            }
        }
        let clients: Vec<String> = self.clients.iter().map(Client::describe).collect();
        let servers: Vec<String> = self.nodes.iter().map(Node::describe).collect();
        Err(Violation::new(format!("not drained after {ROUNDS_MAX} rounds: {clients:?}; {servers:?}")))
    }

    /// Compares the outputs of the last server with what was promised.
    fn check(&mut self) -> Result<(), Violation> {
        if !self.renumbered.is_empty() {
            let others = (0..self.clients.len()).filter(|client| !self.renumbered.contains(client)).collect();
            self.history.forget_all(&others);
        }
        let last = &self.nodes[self.last];
        let mut dropped = 0;
        for node in self.nodes.iter().filter(|node| node.index != self.last) {
            dropped += node.dropped();
            node.check(&self.history, 0)?;
        }
        last.check(&self.history, dropped)?;
        last.lost_line().map_or(Ok(()), |lost| Err(Violation::new(format!("server {}: {lost}", last.index))))
    }
}
