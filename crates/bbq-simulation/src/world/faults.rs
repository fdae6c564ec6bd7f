//! The random faults of a run.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::World;
use crate::bug::Bug;
use crate::disk::{Cut, SimDisk};
use crate::note;
use crate::plan::{self, LANES_MAX};
use crate::server::{RULES, SinkOptions};
use crate::stale;

/// A full disk of a client has room for less than this.
const FULL_CLIENT_BYTES: u64 = 64 * 1024;
/// The longest jump of a wall clock.
const CLOCK_JUMP_NS_MAX: u64 = 3_600_000_000_000;
/// Steps between two temporary read errors of a lane. A reader tries again after 50 ms, 100 ms and so on, and skips blocks that
/// it cannot read in four tries. Errors in quick succession would count as a lasting error.
const STEPS_BETWEEN_READ_ERRORS: u64 = 1000;

impl World {
    /// Makes at most one fault of each kind.
    pub(super) fn fault(&mut self) {
        self.faults_of_network();
        self.faults_of_clients();
        self.faults_of_disk();
        self.end_some();
        self.faults_of_server();
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
            let (clients, mut around) = self.around();
            if clients[client].give_up(&mut around) {
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
                note!(self.trace, "client {client} ends: {cut:?}, in the middle of a call: {soon}");
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
        // The clock of a client that cannot remember its epochs does not go back: the client would use old epochs again.
        if self.random.chance(rates.clock_jump) {
            let jump = self.random.below(CLOCK_JUMP_NS_MAX);
            let remembers = rates.power_client == 0 && rates.full_client == 0;
            let back = remembers && self.random.one_in(2);
            note!(self.trace, "the wall clock jumps {jump} ns, back: {back}");
            if back {
                self.time.unix_ns.fetch_sub(jump, Ordering::Relaxed);
            } else {
                self.time.unix_ns.fetch_add(jump, Ordering::Relaxed);
            }
        }
    }

    fn faults_of_disk(&mut self) {
        let rates = self.plan.rates;
        if self.random.chance(rates.full) {
            let used = self.disk.used();
            let more = self.random.below(4 * self.plan.server.segment_bytes);
            note!(self.trace, "the disk has {more} bytes left");
            self.disk.set_faults(|faults| faults.capacity = Some(used + more));
            self.full_until = self.step + self.random.between(10, 200);
        }
        if self.random.chance(rates.fail_syncs) {
            note!(self.trace, "syncs fail");
            self.disk.set_faults(|faults| faults.sync = 32_768);
            self.trouble_until = self.step + self.random.between(5, 40);
        }
        if self.random.chance(rates.trouble) {
            note!(self.trace, "calls fail");
            let mut some = || self.random.below(3000) as u32;
            let (write, rename, open, sync_dir) = (some(), some(), some(), some());
            self.disk.set_faults(|faults| {
                (faults.write, faults.rename, faults.open, faults.sync_dir) = (write, rename, open, sync_dir);
            });
            self.trouble_until = self.step + self.random.between(5, 60);
        }
        if self.random.chance(rates.passing_read_error)
            && let Some((lane, path)) = self.some_segment()
            && self.next_read_error[lane] <= self.step
        {
            // Fewer errors than the tries of a reader, so nothing is lost. The next error comes after the pauses between the
            // tries.
            self.next_read_error[lane] = self.step + STEPS_BETWEEN_READ_ERRORS;
            let times = self.random.between(1, 2) as u32;
            note!(self.trace, "a sector of {} cannot be read {times} times", path.display());
            self.disk.make_unreadable(&path, times);
        }
        if self.random.chance(rates.evict) {
            note!(self.trace, "clean pages are dropped");
            self.disk.evict();
        }
    }

    /// A segment and its lane.
    fn some_segment(&mut self) -> Option<(usize, PathBuf)> {
        let lane = self.random.index(LANES_MAX as usize);
        let mut paths = segments(&self.disk, lane as u64);
        (!paths.is_empty()).then(|| (lane, paths.swap_remove(self.random.index(paths.len()))))
    }

    /// Ends temporary faults.
    fn end_some(&mut self) {
        if self.full_until == self.step {
            note!(self.trace, "the disk has room again");
            self.disk.set_faults(|faults| faults.capacity = None);
        }
        if self.trouble_until == self.step {
            note!(self.trace, "calls no longer fail");
            self.disk.set_faults(|faults| {
                (faults.write, faults.rename, faults.open, faults.sync_dir, faults.sync) = (0, 0, 0, 0, 0);
            });
        }
        if let Some(server) = &mut self.server {
            if self.stuck_until == self.step {
                server.sinks.iter_mut().for_each(|sink| sink.is_stuck = false);
            }
            if self.random.chance(self.plan.rates.stick) {
                let sink = self.random.index(server.sinks.len());
                note!(self.trace, "sink {sink} is stuck");
                server.sinks[sink].is_stuck = true;
                self.stuck_until = self.step + self.random.between(20, 400);
            }
        }
    }

    fn faults_of_server(&mut self) {
        let rates = self.plan.rates;
        if self.random.chance(rates.cut_in_call) {
            self.arm_cut();
        }
        for (rate, cut) in [(rates.kill_server, Cut::Kill), (rates.power_server, Cut::Power)] {
            if self.random.chance(rate) {
                self.disk.cut(cut);
                self.lose_server(cut);
            }
        }
        // A failed lane needs an operator. The operator comes sooner or later.
        let failed = self.server.as_ref().is_some_and(crate::server::Server::has_failed);
        if self.random.chance(rates.reload) || (failed && self.random.one_in(40)) {
            self.reload();
        }
        if self.random.chance(rates.upgrade) {
            self.upgrade();
        }
    }

    /// Makes the server end in the middle of a call.
    pub(super) fn arm_cut(&mut self) {
        let cut = if self.random.one_in(2) { Cut::Power } else { Cut::Kill };
        let calls = self.random.between(1, 25);
        note!(self.trace, "the server will end in call {calls} from now: {cut:?}");
        self.disk.cut_after(calls, cut);
    }

    /// Makes a starting program end in the middle of its start.
    fn arm_kill(&mut self) {
        let calls = self.random.between(1, 25);
        note!(self.trace, "the new program will be killed in call {calls} from now");
        self.disk.cut_after(calls, Cut::Kill);
    }

    /// The server's process has ended.
    pub(super) fn lose_server(&mut self, cut: Cut) {
        self.disk.cut(cut);
        note!(self.trace, "server ends: {:?}", self.disk.halted());
        // The server's threads end in the middle of their work. Nothing more reaches the disk.
        self.server = None;
        self.network.server_ends(0, &mut self.random);
        self.disk.restart();
        self.between_runs();
    }

    fn reload(&mut self) {
        let Some(server) = &mut self.server else { return };
        note!(self.trace, "reload");
        server.stop(&mut self.network, &mut self.trace);
        self.history.give_up_order(&server.lost_order);
        if let Some(cut) = self.disk.halted() {
            return self.lose_server(cut);
        }
        self.server = None;
        self.between_runs();
        self.start_server();
    }

    /// Whether the last file of a sink ends in the middle of a group.
    fn is_group_begun(&self) -> bool {
        self.disk.names(Path::new("/data/cursors")).iter().any(|path| {
            let cursor = self.disk.contents(path).unwrap_or_default();
            String::from_utf8_lossy(&cursor).contains("\noutput begun ")
        })
    }

    /// An upgrade: the server stops in order and closes its data directory, and another program starts. If the new program does
    /// not report that it serves, the old program continues. Either may be killed between any two steps. Connections that were
    /// not accepted stay in the queue of the sockets, which both programs have.
    fn upgrade(&mut self) {
        let Some(server) = &mut self.server else { return };
        note!(self.trace, "upgrade: the old program stops");
        server.stop(&mut self.network, &mut self.trace);
        self.history.give_up_order(&server.lost_order);
        if let Some(cut) = self.disk.halted() {
            // The new program has nothing to take over, and also ends.
            return self.lose_server(cut);
        }
        self.server = None;
        let old = self.plan.server.clone();
        self.between_runs();
        match self.random.below(4) {
            0 => self.arm_kill(),
            1 => {
                note!(
                    self.trace,
                    "upgrade: the old program is killed before the new one serves; the new one then stops"
                );
                self.start_server();
                if let Some(server) = &mut self.server {
                    server.stop(&mut self.network, &mut self.trace);
                    self.history.give_up_order(&server.lost_order);
                }
                return self.lose_server(Cut::Kill);
            }
            _ => {}
        }
        note!(self.trace, "upgrade: the new program starts");
        self.start_server();
        match self.disk.halted() {
            Some(Cut::Power) => self.lose_server(Cut::Power),
            _ if self.server.is_some() => {}
            _ => {
                note!(self.trace, "upgrade: the new program has ended, the old one continues");
                self.plan.server = old;
                self.start_server();
            }
        }
    }

    /// Makes changes while no server runs.
    fn between_runs(&mut self) {
        if self.plan.lanes_change && self.random.one_in(2) {
            self.plan.server.lanes = self.random.between(1, LANES_MAX) as u32;
        }
        if self.random.one_in(8) {
            let sink = self.random.index(self.plan.server.sinks.len());
            let (name, drawn) = (self.plan.server.sinks[sink].name, plan::sink(&mut self.random));
            let is_file = !self.plan.server.receivers.contains_key(&sink);
            if is_file {
                self.plan.server.sinks[sink] = SinkOptions { name, ..drawn };
            }
            if is_file && self.plan.operator.is_some() {
                let limits = plan::limits(&mut self.random);
                self.plan.server.sinks[sink].limits = limits;
                self.may_lose_letters[sink] |= limits.letters_bytes.is_some();
            }
        }
        if self.plan.has_rules {
            for sink in &mut self.plan.server.sinks {
                if self.random.one_in(2) {
                    sink.rules = self.random.index(RULES.len());
                }
            }
        }
        for (sink, name) in self.plan.server.sinks.iter_mut().zip(&self.names) {
            if sink.name != *name && self.random.one_in(2) {
                note!(self.trace, "name {name} of a sink is written into the configuration");
                sink.name = *name;
            }
        }
        if self.plan.loses_cursors && self.random.one_in(4) {
            let sink = self.random.index(self.repeats.len());
            let name = format!("sink-{sink}-");
            for path in self.disk.names(Path::new("/data/cursors")) {
                if path.to_string_lossy().contains(&name) && self.disk.take_away(&path) {
                    note!(self.trace, "{} is gone", path.display());
                    self.repeats[sink] = true;
                }
            }
        }
        // A sink whose cursor is in the middle of a group counts only the records that it can read: see "Limits" in
        // docs/RELIABILITY.md.
        if self.plan.rots && self.random.one_in(2) && !self.is_group_begun() {
            let lane = self.random.below(LANES_MAX);
            let mut sealed = segments(&self.disk, lane);
            // Not the newest segments: no other segment counts what the newest one lost, and the newest may be empty.
            sealed.truncate(sealed.len().saturating_sub(2));
            if let Some(path) = sealed.first() {
                note!(self.trace, "{} rots", path.display());
                let is_damaged = if self.random.one_in(2) {
                    self.disk.rot(path)
                } else {
                    self.disk.make_unreadable(path, u32::MAX)
                };
                if is_damaged {
                    self.may_lose = true;
                    self.history.damage();
                }
            }
        }
        if self.plan.server.bug == Some(Bug::StaleSegment) {
            for lane in 0..4 {
                if let Some(newest) = segments(&self.disk, lane).pop() {
                    stale::revive(&self.disk, &newest);
                }
            }
        }
    }
}

/// The segments of a lane, oldest first.
fn segments(disk: &SimDisk, lane: u64) -> Vec<PathBuf> {
    let mut paths = disk.names(&PathBuf::from(format!("/data/spool/lane-{lane}")));
    paths.retain(|path| path.extension().is_some_and(|suffix| suffix == "seg"));
    paths
}
