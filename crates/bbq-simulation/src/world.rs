//! One run: clients, network, server, disk and clocks, step by step, all from one seed.
//!
//! In the first phase each step is a random action of a part, or a fault. Then all faults end, the parts act in turn, and
//! everything must drain within a bounded number of steps (liveness). The output is checked against what was promised (safety).
//! Some promises are checked at every step: see [`crate::client`].

mod faults;
mod operator;
mod receivers;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bbq_sink::Goal;
use bbq_spool::SteppedTime;
use bbq_wire::session::AckLevel;

use crate::bug::Bug;
use crate::client::{Around, Client, ClientOptions};
use crate::crowd::{self, Crowd};
use crate::disk::{Cut, SimDisk};
use crate::history::{Delivered, History, Violation};
use crate::kind::Kind;
use crate::network::Network;
use crate::note;
use crate::plan::{LANES_MAX, Plan};
use crate::random::Random;
use crate::server::{OUTPUTS, Server, outputs};
use crate::trace::Trace;

/// The most rounds to drain everything after all faults have ended. Some hundred are usual. In a round each part acts once.
const ROUNDS_MAX: u64 = 1500;
/// The time that passes for a sink that makes requests in a step of such a round: it waits for seconds after an error, and for a minute for
/// a single message on which its receiver fails.
const DRAINING_STEP: Duration = Duration::from_secs(4);
/// Wall clocks begin shortly before this midnight (UTC): far enough from 1970 that they can be set back.
const MIDNIGHT_UNIX_NS: u64 = 1_799_971_200_000_000_000;
/// The longest time before midnight. A run takes about as long.
const BEFORE_MIDNIGHT_NS_MAX: u64 = 2_000_000_000;

/// The summary of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Steps of the first phase.
    pub steps: u64,
    /// Records that were acknowledged as durable.
    pub acknowledged: u64,
    /// Starts of the server.
    pub starts: u64,
    /// A number that differs between two runs if they differ in anything.
    pub digest: u64,
}

pub(crate) struct World {
    plan: Plan,
    random: Random,
    time: Arc<SteppedTime>,
    disk: SimDisk,
    clients: Vec<Client>,
    network: Network,
    history: History,
    trace: Trace,
    server: Option<Server>,
    crowd: Option<Crowd>,
    /// The disk has no room, or sinks are stuck, until this step.
    full_until: u64,
    stuck_until: u64,
    trouble_until: u64,
    /// The step from which a temporary read error may happen, by lane.
    next_read_error: [u64; LANES_MAX as usize],
    step: u64,
    starts: u64,
    /// Whether the cursor was removed, by sink.
    repeats: Vec<bool>,
    /// Data was damaged beyond repair.
    may_lose: bool,
    /// The name that an operator has given each sink, and will write into the configuration.
    names: Vec<usize>,
    /// Whether dead letters may have been deleted to make room for others, by sink.
    may_lose_letters: Vec<bool>,
    /// The rules that each sink has had.
    rules: Vec<BTreeSet<usize>>,
}

impl World {
    pub(crate) fn new(seed: u64, bug: Option<Bug>, kind: Kind, is_traced: bool) -> World {
        let mut random = Random::new(seed);
        let plan = match kind {
            Kind::Crowd => Plan::crowd(&mut random, bug),
            Kind::Operator => Plan::operator(&mut random, bug),
            Kind::Requests => Plan::requests(&mut random, bug),
            Kind::Rules => Plan::rules(&mut random, bug),
            _ => Plan::new(&mut random, bug),
        };
        let disk = SimDisk::new(random.fork());
        disk.set_faults(|faults| {
            faults.lies = bug == Some(Bug::LyingDisk);
            faults.ignores_sync_dir = bug == Some(Bug::MissingDirectorySync);
        });
        let clients =
            plan.clients.iter().enumerate().map(|(index, options)| Client::new(index, *options, &mut random));
        let clients = clients.collect();
        let time = Arc::new(SteppedTime::default());
        let before = random.below(BEFORE_MIDNIGHT_NS_MAX);
        time.unix_ns.store(MIDNIGHT_UNIX_NS - before, Ordering::Relaxed);
        disk.set_clock(Arc::clone(&time));
        disk.keep_removed(Path::new(OUTPUTS));
        let mut trace = Trace::new(is_traced);
        note!(trace, "{plan:?}");
        // Power takes what a client noted as received, and what the server had of it in memory alone. The client then sends it again, and
        // it is stored behind what came since.
        let both_forget = |client: &ClientOptions| client.level < AckLevel::Durable && client.has_spool;
        let mut history = History::default();
        if plan.rates.power_client > 0 && plan.clients.iter().any(both_forget) {
            history.expect_no_order();
        }
        let crowd =
            plan.crowd.map(|crowd| Crowd::new(random.fork(), plan.clients.len(), crowd.has_stranger, bug));
        World {
            crowd,
            repeats: vec![false; plan.server.sinks.len()],
            names: vec![0; plan.server.sinks.len()],
            rules: vec![BTreeSet::new(); plan.server.sinks.len()],
            may_lose: plan.server.drops_oldest,
            may_lose_letters: plan
                .server
                .sinks
                .iter()
                .map(|sink| sink.limits.letters_bytes.is_some())
                .collect(),
            plan,
            random,
            time,
            disk,
            clients,
            network: Network::default(),
            history,
            trace,
            server: None,
            full_until: 0,
            stuck_until: 0,
            trouble_until: 0,
            next_read_error: [0; LANES_MAX as usize],
            step: 0,
            starts: 0,
        }
    }

    /// Runs to the end. The error is a broken promise.
    pub(crate) fn run(&mut self) -> Result<Summary, Violation> {
        while self.step < self.plan.steps {
            self.step += 1;
            self.trace.at(self.step);
            self.pass_time();
            self.fault();
            self.operate();
            self.act()?;
            self.look_at_server();
            self.look_at_receivers()?;
        }
        self.end_faults();
        self.drain()?;
        self.check()?;
        self.send_letters_again()?;
        Ok(Summary {
            steps: self.step,
            acknowledged: self.history.acknowledged() as u64,
            starts: self.starts,
            digest: self.random.next() ^ self.time.now_ns.load(Ordering::Relaxed),
        })
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    fn pass_time(&mut self) {
        let most = if self.random.one_in(50) { 20_000_000 } else { 300_000 };
        let passed = self.random.below(most);
        self.time.now_ns.fetch_add(passed, Ordering::Relaxed);
        self.time.unix_ns.fetch_add(passed, Ordering::Relaxed);
    }

    /// A random part acts.
    fn act(&mut self) -> Result<(), Violation> {
        let crowd = self.plan.crowd.map_or(0, |crowd| crowd.weight);
        let weights = [self.plan.client_weight * 3, 6, 4, 3, self.plan.sink_weight, 2, crowd];
        let mut choice = self.random.below(weights.iter().sum());
        let mut who = 0;
        while choice >= weights[who] {
            choice -= weights[who];
            who += 1;
        }
        match who {
            0 => {
                let client = self.random.index(self.clients.len());
                self.act_of_client(client)?;
            }
            1 => {
                if let Some(number) = self.network.any(&mut self.random) {
                    let most = if self.random.one_in(3) { 40 } else { 4000 };
                    let bytes = self.random.index(most) + 1;
                    self.network.deliver(number, bytes);
                }
            }
            2 => {
                if let (Some(server), Some(number)) = (&mut self.server, self.network.any(&mut self.random)) {
                    server.serve(number, &mut self.network, &mut self.trace);
                }
            }
            3 => self.act_of_lane(),
            4 => self.act_of_sink(),
            5 => self.act_of_control(),
            _ => return self.act_of_crowd(Crowd::act),
        }
        Ok(())
    }

    fn around(&mut self) -> (&mut Vec<Client>, Around<'_>) {
        let may_forget = self.may_lose && self.plan.rots;
        let around = Around {
            network: &mut self.network,
            history: &mut self.history,
            random: &mut self.random,
            trace: &mut self.trace,
            time: &self.time,
            may_forget,
            is_set_back: false,
        };
        (&mut self.clients, around)
    }

    fn act_of_client(&mut self, client: usize) -> Result<(), Violation> {
        let (clients, mut around) = self.around();
        let client = &mut clients[client];
        if !client.is_running() {
            client.start(&mut around);
            return Ok(());
        }
        if client.wants_to_make(around.random) {
            client.make(&mut around)?;
        }
        client.step(&mut around)
    }

    fn act_of_crowd(
        &mut self,
        act: impl FnOnce(&mut Crowd, &mut crowd::Around<'_>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let World { crowd: Some(crowd), server, network, history, trace, time, .. } = self else {
            return Ok(());
        };
        act(crowd, &mut crowd::Around { server, network, history, trace, time })
    }

    fn act_of_lane(&mut self) {
        let Some(server) = &mut self.server else { return };
        let lane = self.random.index(server.lanes());
        if self.random.one_in(2) {
            server.write(lane, &mut self.trace);
        } else {
            server.settle(lane, &mut self.network, &mut self.trace);
        }
    }

    fn act_of_sink(&mut self) {
        let Some(server) = &mut self.server else { return };
        let sink = self.random.index(server.sinks.len());
        // A hold without a stop happens in a reload that is cancelled.
        let goal = if self.random.one_in(8) { Goal::Hold } else { Goal::Deliver };
        server.deliver(sink, goal, &mut self.trace);
    }

    fn act_of_control(&mut self) {
        match &mut self.server {
            None => {
                if self.plan.rates.cut_in_call > 0 && self.random.one_in(6) {
                    self.arm_cut();
                }
                self.start_server();
            }
            Some(server) => match self.random.below(12) {
                0..=1 => server.ask(true),
                2..=3 => server.ask(false),
                4 => server.put_late_checkpoint(),
                _ => server.retire(&mut self.trace),
            },
        }
    }

    /// Starts the server with the files on its disk. If that fails, a later step tries again.
    fn start_server(&mut self) {
        if self.disk.halted().is_some() {
            self.disk.restart();
        }
        self.starts += 1;
        for (known, sink) in self.rules.iter_mut().zip(&self.plan.server.sinks) {
            known.insert(sink.rules);
        }
        match Server::open(&self.disk, &self.plan.server, &self.time) {
            Ok(server) => {
                note!(self.trace, "server starts: {}", server.describe());
                self.server = Some(server);
            }
            Err(why) => {
                note!(self.trace, "server does not start: {why}");
                self.disk.cut(Cut::Kill);
            }
        }
    }

    /// Handles the end of the server's process during its last action.
    fn look_at_server(&mut self) {
        if let Some(server) = &mut self.server {
            self.history.give_up_order(&server.lost_order);
        }
        if let Some(cut) = self.disk.halted()
            && self.server.is_some()
        {
            self.lose_server(cut);
        }
    }

    /// Ends all faults.
    fn end_faults(&mut self) {
        self.trace.at(self.step);
        note!(self.trace, "all faults end");
        self.disk.heal();
        self.clients.iter_mut().for_each(Client::heal);
        if self.server.as_ref().is_some_and(Server::has_failed) || self.disk.halted().is_some() {
            self.lose_server(Cut::Kill);
        }
        if let Some(server) = &mut self.server {
            server.sinks.iter_mut().for_each(|sink| (sink.is_stuck, sink.is_paused) = (false, false));
        }
        self.plan.server.receivers.values().for_each(|receiver| receiver.heal());
    }

    /// Lets all parts act in turn, until nothing is left to do.
    fn drain(&mut self) -> Result<(), Violation> {
        for round in 0..ROUNDS_MAX {
            self.step += 1;
            self.trace.at(self.step);
            self.time.now_ns.fetch_add(1_000_000, Ordering::Relaxed);
            self.time.unix_ns.fetch_add(1_000_000, Ordering::Relaxed);
            if self.server.is_none() {
                self.start_server();
            }
            for client in 0..self.clients.len() {
                let (clients, mut around) = self.around();
                if !clients[client].is_running() {
                    clients[client].start(&mut around);
                }
                // This makes even a quiet client connect, so that its records are acknowledged.
                if round == 0 {
                    clients[client].make(&mut around)?;
                }
                clients[client].step(&mut around)?;
            }
            for number in self.network.numbers() {
                self.network.deliver(number, usize::MAX);
            }
            self.round_of_server();
            self.act_of_crowd(Crowd::round)?;
            self.look_at_server();
            self.look_at_receivers()?;
            if self.is_drained() {
                return Ok(());
            }
        }
        let clients: Vec<String> = self.clients.iter().map(Client::describe).collect();
        let server = self.server.as_ref().map(Server::describe);
        let crowd = self.crowd.as_ref().map(Crowd::describe);
        Err(Violation::new(format!(
            "not drained after {ROUNDS_MAX} rounds: {clients:?}; {server:?}; {crowd:?}"
        )))
    }

    fn round_of_server(&mut self) {
        let Some(server) = &mut self.server else { return };
        for number in self.network.numbers() {
            server.serve(number, &mut self.network, &mut self.trace);
        }
        for lane in 0..server.lanes() {
            server.write(lane, &mut self.trace);
            server.settle(lane, &mut self.network, &mut self.trace);
        }
        for sink in 0..server.sinks.len() {
            for goal in [Goal::Deliver, Goal::Deliver, Goal::Deliver, Goal::Deliver, Goal::Drain] {
                server.sinks[sink].receiver().into_iter().for_each(|receiver| receiver.pass(DRAINING_STEP));
                server.deliver(sink, goal, &mut self.trace);
            }
        }
        server.ask(false);
        server.retire(&mut self.trace);
    }

    fn is_drained(&self) -> bool {
        self.crowd.as_ref().is_none_or(Crowd::is_drained)
            && self.clients.iter().all(Client::is_drained)
            && self.server.as_ref().is_some_and(Server::is_drained)
    }

    /// Compares the outputs with what was promised.
    fn check(&mut self) -> Result<(), Violation> {
        let Some(server) = &mut self.server else { return Ok(()) };
        if let Some(wrong) = server.imbalance() {
            return Err(Violation::new(wrong));
        }
        let records = server.records();
        for index in 0..self.plan.server.sinks.len() {
            if self.plan.server.receivers.contains_key(&index) {
                self.check_receiver(index)?;
                continue;
            }
            let Some(server) = &mut self.server else { return Ok(()) };
            let letters = match self.plan.operator {
                Some(operator) if operator.rename == 0 && self.plan.server.receivers.is_empty() => {
                    Some(server.letters(index))
                }
                Some(_) => Some(server.letters_of_all_names(index)),
                None => None,
            };
            let letters = letters.transpose().map_err(Violation::new)?;
            let sink = &server.sinks[index];
            // What a power failure tore may look like a line that the spool does not have, and messages that were deleted to make room may be
            // in an output without its cursor: no promise depends on the copy of it.
            let outputs = outputs(&self.disk, &sink.name, false);
            let (delivered, dropped) = sink.ledger();
            let sink = Delivered {
                sink: &sink.name,
                outputs: &outputs,
                delivered,
                dropped: &dropped,
                filtered: sink.filtered(),
                rules: &self.rules[index],
                records,
                dropped_before: 0,
                may_repeat: self.repeats[index],
                letters: letters.as_ref(),
                may_lose_letters: self.may_lose_letters[index],
            };
            self.history.check(&sink, self.may_lose || letters.is_some())?;
        }
        Ok(())
    }
}
