//! The random faults of a world of several servers.

use std::sync::atomic::Ordering;

use super::Tiers;
use crate::client::Client;
use crate::disk::Cut;
use crate::note;
use crate::server::Server;

/// A full disk of a client has room for less than this.
const FULL_CLIENT_BYTES: u64 = 64 * 1024;
/// The longest jump of a wall clock. Clocks only go forward here: a link has no epoch but the time.
const CLOCK_JUMP_NS_MAX: u64 = 3_600_000_000_000;

impl Tiers {
    /// Makes at most one fault of each kind.
    pub(super) fn fault(&mut self) {
        self.faults_of_network();
        self.faults_of_clients();
        let node = self.random.index(self.nodes.len());
        self.faults_of_disk(node);
        self.end_some();
        self.faults_of_server(node);
    }

    fn faults_of_network(&mut self) {
        let rates = self.plan.rates;
        if self.random.chance(rates.cut_connection)
            && let Some(number) = self.network.any(&mut self.random)
        {
            note!(self.trace, "connection {number} breaks");
            self.network.cut(number, &mut self.random);
        }
        if self.random.chance(rates.give_up) {
            let client = self.random.index(self.clients.len());
            let (given_up, mut around) = self.around(client);
            if given_up.give_up(&mut around) {
                note!(self.trace, "client {client} gives up its connection");
            }
        }
    }

    fn faults_of_clients(&mut self) {
        let rates = self.plan.rates;
        for (rate, cut) in [(rates.kill_client, Cut::Kill), (rates.power_client, Cut::Power)] {
            if self.random.chance(rate) {
                let client = self.random.index(self.clients.len());
                let soon = self.random.one_in(2);
                let cut = if self.is_below && client == 0 { Cut::Kill } else { cut };
                note!(self.trace, "client {client} ends: {cut:?}, in the middle of a call: {soon}");
                if self.unsure.contains(&client) && cut == Cut::Power {
                    self.renumbered.insert(client);
                }
                if soon {
                    self.clients[client].end_soon(cut, &mut self.random);
                } else {
                    self.clients[client].end(cut, &mut self.network, &mut self.random);
                }
            }
        }
        if self.random.chance(rates.close_client) {
            let client = self.random.index(self.clients.len());
            note!(self.trace, "client {client} is closed");
            self.clients[client].close(&mut self.network, &mut self.random);
        }
        if self.random.chance(rates.full_client) {
            let client = self.random.index(self.clients.len());
            let more = self.random.below(FULL_CLIENT_BYTES);
            let room = if self.random.one_in(2) { Some(more) } else { None };
            note!(self.trace, "the disk of client {client} has room for {room:?} bytes");
            self.clients[client].limit_disk(room);
        }
    }

    fn faults_of_disk(&mut self, index: usize) {
        let rates = self.plan.rates;
        let node = &mut self.nodes[index];
        if self.random.chance(rates.full) {
            let used = node.disk.used();
            let more = self.random.below(4 * node.plan.options.segment_bytes);
            note!(self.trace, "the disk of server {index} has {more} bytes left");
            node.disk.set_faults(|faults| faults.capacity = Some(used + more));
            node.full_until = self.step + self.random.between(10, 200);
        }
        if self.random.chance(rates.fail_syncs) {
            note!(self.trace, "syncs of server {index} fail");
            node.disk.set_faults(|faults| faults.sync = 32_768);
            node.trouble_until = self.step + self.random.between(5, 40);
        }
        if self.random.chance(rates.trouble) {
            note!(self.trace, "calls of server {index} fail");
            let mut some = || self.random.below(3000) as u32;
            let (write, rename, open, sync_dir) = (some(), some(), some(), some());
            node.disk.set_faults(|faults| {
                (faults.write, faults.rename, faults.open, faults.sync_dir) = (write, rename, open, sync_dir);
            });
            node.trouble_until = self.step + self.random.between(5, 60);
        }
        if self.random.chance(rates.evict) {
            note!(self.trace, "server {index}: clean pages are dropped");
            node.disk.evict();
        }
        if self.random.chance(rates.clock_jump) {
            let jump = self.random.below(CLOCK_JUMP_NS_MAX);
            note!(self.trace, "the wall clock of server {index} jumps {jump} ns");
            node.time.unix_ns.fetch_add(jump, Ordering::Relaxed);
        }
        if self.random.chance(rates.stick)
            && let Some(server) = node.server.as_mut().filter(|server| !server.sinks.is_empty())
        {
            let sink = self.random.index(server.sinks.len());
            note!(self.trace, "sink {sink} of server {index} is stuck");
            server.sinks[sink].is_stuck = true;
            node.stuck_until = self.step + self.random.between(20, 400);
        }
    }

    /// Ends temporary faults.
    fn end_some(&mut self) {
        for node in &mut self.nodes {
            if node.full_until == self.step {
                node.disk.set_faults(|faults| faults.capacity = None);
            }
            if node.trouble_until == self.step {
                node.disk.set_faults(|faults| {
                    (faults.write, faults.rename, faults.open, faults.sync_dir, faults.sync) =
                        (0, 0, 0, 0, 0);
                });
            }
            if let Some(server) = node.server.as_mut().filter(|_| node.stuck_until == self.step) {
                server.sinks.iter_mut().for_each(|sink| sink.is_stuck = false);
            }
        }
    }

    fn faults_of_server(&mut self, index: usize) {
        let rates = self.plan.rates;
        if self.random.chance(rates.cut_in_call) {
            let cut = if self.random.one_in(2) { Cut::Power } else { Cut::Kill };
            let calls = self.random.between(1, 25);
            note!(self.trace, "server {index} will end in call {calls} from now: {cut:?}");
            self.nodes[index].disk.cut_after(calls, cut);
        }
        for (rate, cut) in [(rates.kill_server, Cut::Kill), (rates.power_server, Cut::Power)] {
            if self.random.chance(rate) {
                self.nodes[index].lose(cut, &mut self.network, &mut self.random, &mut self.trace);
                self.stay_away(index);
            }
        }
        // A failed lane needs an operator. The operator comes sooner or later.
        let node = &mut self.nodes[index];
        let failed = node.server.as_ref().is_some_and(Server::has_failed);
        if self.random.chance(rates.reload.max(rates.upgrade)) || (failed && self.random.one_in(40)) {
            node.stop(&mut self.network, &mut self.random, &mut self.trace);
            node.start(&mut self.trace);
        }
    }

    /// A server that was lost comes back at once, or some time later.
    pub(super) fn stay_away(&mut self, index: usize) {
        if self.random.one_in(2) {
            self.nodes[index].away_until = self.step + self.random.below(self.plan.away_max);
        }
    }

    /// Ends all faults. The sinks that were to be added are added.
    pub(super) fn end_faults(&mut self) {
        self.trace.at(self.step);
        note!(self.trace, "all faults end");
        self.clients.iter_mut().for_each(Client::heal);
        for node in &mut self.nodes {
            node.disk.heal();
            let failed = node.server.as_ref().is_some_and(Server::has_failed);
            if failed || node.disk.halted().is_some() {
                node.lose(Cut::Kill, &mut self.network, &mut self.random, &mut self.trace);
            }
            if !node.plan.late_sinks.is_empty() {
                node.stop(&mut self.network, &mut self.random, &mut self.trace);
                node.add_late_sinks(&mut self.trace);
            }
            if let Some(server) = &mut node.server {
                server.sinks.iter_mut().for_each(|sink| sink.is_stuck = false);
            }
        }
    }
}
