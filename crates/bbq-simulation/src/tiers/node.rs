//! One of several servers, with its own disk, page cache and clock. This value outlives the process.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bbq_sink::Goal;
use bbq_spool::SteppedTime;

use super::plan::NodePlan;
use crate::bug::Bug;
use crate::disk::{Cut, SimDisk};
use crate::history::{Delivered, History, Violation};
use crate::network::Network;
use crate::note;
use crate::plan::LANES_MAX;
use crate::random::Random;
use crate::record::Record;
use crate::server::{Destination, OUTPUTS, Server, outputs};
use crate::trace::Trace;

/// Clocks of machines differ by less than this.
const CLOCK_OFFSET_NS_MAX: u64 = 3_600_000_000_000;
/// The shortest time between two starts of a program, and of a machine: the epoch of a link is a time in milliseconds.
const PROGRAM_START_NS: u64 = 2_000_000;
const MACHINE_START_NS: u64 = 1_000_000_000;

/// The directory of a server's messages, cursors and streams.
pub(super) const DATA: &str = "/data";

pub(super) struct Node {
    pub(super) index: usize,
    pub(super) plan: NodePlan,
    pub(super) disk: SimDisk,
    pub(super) time: Arc<SteppedTime>,
    pub(super) server: Option<Server>,
    /// The step before which the server does not start again.
    pub(super) away_until: u64,
    /// The steps at which temporary faults end.
    pub(super) full_until: u64,
    pub(super) trouble_until: u64,
    pub(super) stuck_until: u64,
    pub(super) starts: u64,
    /// Its disk was set back.
    pub(super) is_set_back: bool,
    /// The records that each output had when a disk was set back.
    pub(super) kept: Vec<BTreeSet<Record>>,
}

impl Node {
    pub(super) fn new(index: usize, plan: NodePlan, unix_ns: u64, random: &mut Random) -> Node {
        let disk = SimDisk::new(random.fork());
        let bug = plan.options.bug;
        disk.set_faults(|faults| {
            faults.lies = bug == Some(Bug::LyingDisk);
            faults.ignores_sync_dir = bug == Some(Bug::MissingDirectorySync);
        });
        let time = Arc::new(SteppedTime::default());
        time.unix_ns.store(unix_ns + random.below(CLOCK_OFFSET_NS_MAX), Ordering::Relaxed);
        disk.set_clock(Arc::clone(&time));
        disk.keep_removed(Path::new(OUTPUTS));
        Node {
            index,
            plan,
            disk,
            time,
            server: None,
            away_until: 0,
            full_until: 0,
            trouble_until: 0,
            stuck_until: 0,
            starts: 0,
            is_set_back: false,
            kept: Vec::new(),
        }
    }

    /// Another server, on another machine, with a copy of the data directory that a server has on `disk`.
    pub(super) fn copy(original: &Node, index: usize, disk: &SimDisk, random: &mut Random) -> Node {
        let mut plan = original.plan.clone();
        plan.options.salt = (index as u64 + 1) << 56;
        let unix_ns = original.time.unix_ns.load(Ordering::Relaxed);
        let node = Node::new(index, plan, unix_ns - random.below(CLOCK_OFFSET_NS_MAX), random);
        let now_ns = original.time.now_ns.load(Ordering::Relaxed);
        node.time.now_ns.store(now_ns, Ordering::Relaxed);
        node.disk.set_back(Path::new(DATA), disk);
        node
    }

    /// Passes on to another server in place of `one`, from the next start on. Returns whether it passes on to that.
    pub(super) fn redirect(&mut self, one: usize, other: usize, random: &mut Random) -> bool {
        let NodePlan { options, late_sinks, .. } = &mut self.plan;
        let links =
            options.sinks.iter_mut().chain(late_sinks).filter_map(|sink| match &mut sink.destination {
                Destination::Servers(servers) if servers.numbers().any(|server| server == one) => {
                    Some(servers)
                }
                _ => None,
            });
        let mut is_redirected = false;
        for servers in links {
            if random.one_in(2) {
                *servers = servers.with(one, other);
                is_redirected = true;
            }
        }
        is_redirected
    }

    pub(super) fn pass_time(&self, ns: u64) {
        self.time.now_ns.fetch_add(ns, Ordering::Relaxed);
        self.time.unix_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Starts with the files on the disk. If that fails, a later step tries again.
    pub(super) fn start(&mut self, trace: &mut Trace) {
        if self.disk.halted().is_some() {
            self.disk.restart();
        }
        self.starts += 1;
        self.pass_time(PROGRAM_START_NS);
        match Server::open(&self.disk, &self.plan.options, &self.time) {
            Ok(server) => {
                note!(trace, "server {} starts: {}", self.index, server.describe());
                self.server = Some(server);
            }
            Err(why) => {
                note!(trace, "server {} does not start: {why}", self.index);
                self.disk.cut(Cut::Kill);
            }
        }
    }

    /// The process has ended.
    pub(super) fn lose(&mut self, cut: Cut, network: &mut Network, random: &mut Random, trace: &mut Trace) {
        self.disk.cut(cut);
        note!(trace, "server {} ends: {:?}", self.index, self.disk.halted());
        if let Some(server) = self.server.take() {
            server.end_links(network, random);
        }
        network.server_ends(self.index, random);
        if self.disk.halted() == Some(Cut::Power) {
            self.pass_time(MACHINE_START_NS);
        }
        self.disk.restart();
        self.change(random, trace);
    }

    /// Stops in order.
    pub(super) fn stop(&mut self, network: &mut Network, random: &mut Random, trace: &mut Trace) {
        let Some(server) = &mut self.server else { return };
        note!(trace, "server {} stops", self.index);
        server.stop(network, trace);
        if let Some(cut) = self.disk.halted() {
            return self.lose(cut, network, random, trace);
        }
        server.carry(network);
        server.end_links(network, random);
        self.server = None;
        self.change(random, trace);
    }

    /// Changes the configuration while the server does not run.
    fn change(&mut self, random: &mut Random, trace: &mut Trace) {
        if self.plan.lanes_change && random.one_in(2) {
            self.plan.options.lanes = random.between(1, LANES_MAX) as u32;
        }
        if random.one_in(3) {
            self.add_late_sinks(trace);
        }
    }

    /// The sinks that were left out are configured from the next start on.
    pub(super) fn add_late_sinks(&mut self, trace: &mut Trace) {
        if !self.plan.late_sinks.is_empty() {
            note!(trace, "server {} gets a sink", self.index);
            self.plan.options.sinks.append(&mut self.plan.late_sinks);
        }
    }

    /// Notices that the process has ended in its last action.
    pub(super) fn look(&mut self, network: &mut Network, random: &mut Random, trace: &mut Trace) -> bool {
        let cut = self.disk.halted().filter(|_| self.server.is_some());
        if let Some(cut) = cut {
            self.lose(cut, network, random, trace);
        }
        cut.is_some()
    }

    pub(super) fn note_lost_order(&self, history: &mut History) {
        if let Some(server) = &self.server {
            history.give_up_order(&server.lost_order);
        }
    }

    /// A worker handles a connection, if it is one of this server.
    pub(super) fn serve(&mut self, number: u64, network: &mut Network, trace: &mut Trace) {
        if let Some(server) = &mut self.server {
            server.serve(number, network, trace);
        }
    }

    pub(super) fn deliver(&mut self, sink: usize, goal: Goal, network: &mut Network, trace: &mut Trace) {
        if let Some(server) = &mut self.server {
            server.carry(network);
            server.deliver(sink, goal, trace);
            server.carry(network);
        }
    }

    /// Every part acts once.
    pub(super) fn round(&mut self, network: &mut Network, trace: &mut Trace) {
        for number in network.numbers_of(self.index) {
            self.serve(number, network, trace);
        }
        let Some(server) = &mut self.server else { return };
        for lane in 0..server.lanes() {
            server.write(lane, trace);
            server.settle(lane, network, trace);
        }
        let sinks = server.sinks.len();
        for sink in 0..sinks {
            for _ in 0..4 {
                self.deliver(sink, Goal::Deliver, network, trace);
            }
            self.deliver(sink, Goal::Drain, network, trace);
        }
        if let Some(server) = &mut self.server {
            server.ask(false);
            server.retire(trace);
        }
    }

    pub(super) fn is_drained(&self) -> bool {
        self.plan.late_sinks.is_empty() && self.server.as_ref().is_some_and(Server::is_drained)
    }

    /// The contents of the files of each sink.
    pub(super) fn outputs(&self) -> Vec<Vec<Vec<u8>>> {
        self.outputs_on(&self.disk)
    }

    /// The same, as they are on a copy of the disk.
    pub(super) fn outputs_on(&self, disk: &SimDisk) -> Vec<Vec<Vec<u8>>> {
        (0..self.plan.options.sinks.len()).map(|sink| outputs(disk, &format!("sink-{sink}"), true)).collect()
    }

    /// What the server waits for, for error messages.
    pub(super) fn describe(&self) -> String {
        let state = self.server.as_ref().map_or_else(|| "does not run".to_owned(), Server::describe);
        format!("server {}: {state}", self.index)
    }

    /// Whether the server has no next server: its outputs count.
    fn is_last(&self) -> bool {
        let is_file = |sink: &crate::server::SinkOptions| matches!(sink.destination, Destination::File(_));
        self.plan.options.sinks.iter().all(is_file)
    }

    /// Records that the sinks of the server have counted as dropped when there was nothing else to do.
    pub(super) fn dropped(&self) -> u64 {
        let sinks = self.server.iter().flat_map(|server| &server.sinks);
        sinks.map(|sink| sink.ledger().1.values().sum::<u64>()).sum()
    }

    /// Checks the counts, and at the last server the outputs. `dropped_before` is what the other servers have dropped.
    pub(super) fn check(&self, history: &History, dropped_before: u64) -> Result<(), Violation> {
        let Some(server) = &self.server else { return Ok(()) };
        let of_this = |Violation(what)| Violation(format!("server {}: {what}", self.index));
        if let Some(wrong) = server.imbalance() {
            return Err(of_this(Violation(wrong)));
        }
        for sink in &server.sinks {
            let (delivered, dropped) = sink.ledger();
            let (sum, records) = (delivered + dropped.values().sum::<u64>(), server.records());
            if sum != records {
                let text = format!(
                    "{}: delivered {delivered} and dropped {dropped:?} make {sum}, but there were {records} records",
                    sink.name
                );
                return Err(of_this(Violation(text)));
            }
            if !self.is_last() {
                continue;
            }
            // Without a disk that was set back, no promise depends on the copy of what was cut off.
            let outputs = outputs(&self.disk, &sink.name, self.is_set_back);
            let delivered = Delivered {
                sink: &sink.name,
                outputs: &outputs,
                delivered,
                dropped: &dropped,
                filtered: 0,
                rules: &BTreeSet::new(),
                records,
                dropped_before,
                may_repeat: self.is_set_back,
                letters: None,
                may_lose_letters: false,
            };
            history.check(&delivered, dropped_before > 0).map_err(of_this)?;
        }
        Ok(())
    }
}
