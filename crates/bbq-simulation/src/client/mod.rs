//! A client: an application that makes records, and bbq-client's sender, which numbers them, spools them, sends them, and reports
//! acknowledgements. It runs step by step, with a simulated disk, clock and network.

mod around;
mod environment;
mod options;
mod process;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use bbq_wire::session::AckLevel;

use crate::bug::Bug;
use crate::disk::{Cut, SimDisk};
use crate::history::Violation;
use crate::network::Network;
use crate::note;
use crate::random::Random;
use crate::record::Record;
use crate::servers::Servers;
pub(crate) use around::Around;
use environment::Machine;
pub(crate) use options::{ClientOptions, SPOOL};
use process::Process;

/// A kill in the middle of a call comes within this many calls that change the disk.
const CALLS_MAX: u64 = 12;

/// The shortest time that a machine needs to start after a power failure.
const MACHINE_START_NS: u64 = 1_000_000_000;

/// Another machine has had more starts than any of these has.
const OTHER_MACHINE_BOOT: u64 = 1 << 32;

/// An application with its sender. This value outlives the process.
pub(crate) struct Client {
    pub(crate) index: usize,
    /// The client whose spool this one has a copy of.
    origin: Option<usize>,
    options: ClientOptions,
    disk: SimDisk,
    /// The number of starts of the client's machine.
    boot: u64,
    /// The number of the machine's start after which the process was started last.
    started_in: u64,
    /// Records that the application has made, ever.
    made: u64,
    process: Option<Process>,
}

impl Client {
    pub(crate) fn new(index: usize, options: ClientOptions, random: &mut Random) -> Client {
        Client {
            index,
            origin: None,
            options,
            disk: SimDisk::new(random.fork()),
            boot: 1,
            started_in: 1,
            made: 0,
            process: None,
        }
    }

    /// Another client that begins with a copy of this one's spool, as it is on `disk`, on this machine or on another one.
    pub(crate) fn copy(
        &self,
        index: usize,
        disk: &SimDisk,
        is_on_machine: bool,
        random: &mut Random,
    ) -> Client {
        let boot = if is_on_machine { self.boot } else { OTHER_MACHINE_BOOT };
        let client = Client {
            origin: Some(self.index),
            boot,
            started_in: boot,
            ..Client::new(index, self.options, random)
        };
        client.disk.set_back(Path::new(SPOOL), disk);
        let is_noticed = self.options.bug != Some(Bug::CopyNotNoticed);
        client.disk.set_faults(|faults| faults.hides_identity = !is_noticed);
        client
    }

    /// Ends the process, and gives the machine an earlier state of its disk: the files are the same ones, in an earlier state.
    pub(crate) fn roll_back(&mut self, earlier: &SimDisk, network: &mut Network, random: &mut Random) {
        self.end(Cut::Kill, network, random);
        self.disk = earlier.fork();
        self.disk.heal();
        self.disk.restart();
    }

    /// Records that the application has made.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    pub(crate) fn servers(&self) -> Servers {
        self.options.servers
    }

    /// Changes the servers behind the client's addresses, and from its next start on the addresses.
    pub(crate) fn set_servers(&mut self, servers: Servers) {
        self.options.servers = servers;
    }

    pub(crate) fn disk(&self) -> &SimDisk {
        &self.disk
    }

    pub(crate) fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Whether nothing is left to be acknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_drained)
    }

    /// What the client waits for, for error messages.
    pub(crate) fn describe(&self) -> String {
        let state = self.process.as_ref().map_or_else(|| "does not run".to_owned(), Process::describe);
        format!("client {} {state}", self.index)
    }

    /// Ends the process: by a kill, or by a power failure of its machine.
    pub(crate) fn end(&mut self, cut: Cut, network: &mut Network, random: &mut Random) {
        self.disk.cut(cut);
        let cut = self.disk.halted().unwrap_or(cut);
        if let Some(connection) = self.process.take().and_then(|process| process.connection()) {
            if cut == Cut::Power || random.one_in(2) {
                network.cut(connection, random);
            }
            network.leave(connection);
        }
        self.disk.restart();
        if cut == Cut::Power {
            self.boot += 1;
        }
    }

    /// Makes a kill or a power failure end the process in the middle of a call.
    pub(crate) fn end_soon(&mut self, cut: Cut, random: &mut Random) {
        self.disk.cut_after(random.between(1, CALLS_MAX), cut);
    }

    /// Sets the room on the client's disk; `None` for no limit.
    pub(crate) fn limit_disk(&mut self, bytes: Option<u64>) {
        let capacity = bytes.map(|bytes| self.disk.used() + bytes);
        self.disk.set_faults(|faults| faults.capacity = capacity);
    }

    /// Ends all faults. The next step notices if the process has ended.
    pub(crate) fn heal(&mut self) {
        self.disk.heal();
    }

    /// The application closes its sender in order, and ends.
    pub(crate) fn close(&mut self, network: &mut Network, random: &mut Random) {
        if let Some(process) = &self.process {
            process.close();
        }
        self.end(Cut::Kill, network, random);
    }

    /// Starts the process with its spool. If that fails, for example on a full disk, a later step tries again.
    pub(crate) fn start(&mut self, around: &mut Around<'_>) {
        let lost_power = std::mem::replace(&mut self.started_in, self.boot) != self.boot;
        if lost_power {
            // Epochs of connections are times of the wall clock, and a power failure loses the last epoch. The machine starts so
            // late that all earlier epochs are in the past.
            around.time.unix_ns.fetch_add(MACHINE_START_NS, Ordering::Relaxed);
        }
        // The planted bug: a sender that ignores the restart of the machine trusts the spool that it finds.
        let boot = if self.options.bug == Some(Bug::NumberUsedAgain) { 1 } else { self.boot };
        let machine = Machine {
            disk: self.disk.clone(),
            time: Arc::clone(around.time),
            boot,
            random: Mutex::new(around.random.fork()),
        };
        match Process::start(self.index, self.origin, &self.options, machine) {
            Ok(process) => {
                note!(around.trace, "client {} starts: {}", self.index, process.describe());
                process.hold_again(around.history, lost_power && self.options.level == AckLevel::Received);
                self.process = Some(process);
            }
            Err(why) => {
                note!(around.trace, "client {} does not start: {why}", self.index);
            }
        }
        self.look(around);
    }

    /// The application makes a record, if there is room.
    pub(crate) fn make(&mut self, around: &mut Around<'_>) -> Result<(), Violation> {
        let Some(process) = &mut self.process else { return Ok(()) };
        self.made += 1;
        let largest = self.options.record_bytes_max;
        let most = if around.random.one_in(30) { 8 * largest } else { largest };
        let bytes = around.random.between(20, most) as u32;
        let made = process.make(Record { client: self.index, number: self.made, bytes }, around);
        self.look(around);
        made
    }

    /// Whether the application makes a record in a step.
    pub(crate) fn wants_to_make(&self, random: &mut Random) -> bool {
        random.one_in(self.options.one_record_in)
    }

    /// The sender does something: connects, reads, or sends.
    pub(crate) fn step(&mut self, around: &mut Around<'_>) -> Result<(), Violation> {
        let Some(process) = &mut self.process else { return Ok(()) };
        let done = process.step(&self.options, &self.disk, around);
        let is_over = process.is_over();
        self.look(around);
        if is_over && self.process.is_some() {
            note!(around.trace, "client {} gives up, and is started again", self.index);
            self.end(Cut::Kill, around.network, around.random);
        }
        done
    }

    /// The sender gives up its connection. The bytes that it has written may still arrive.
    pub(crate) fn give_up(&mut self, around: &mut Around<'_>) -> bool {
        self.process.as_mut().is_some_and(|process| process.give_up(around))
    }

    /// Handles the end of the process during its last action.
    fn look(&mut self, around: &mut Around<'_>) {
        if let Some(cut) = self.disk.halted() {
            note!(around.trace, "client {} ends in the middle of a call: {cut:?}", self.index);
            self.end(cut, around.network, around.random);
        }
    }
}
