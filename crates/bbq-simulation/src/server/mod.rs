//! The server, step by step: its lanes, sessions and acknowledgements, the table of streams, checkpoints, retention, and the
//! sinks.

mod drive;
#[cfg(test)]
mod failed_lane_tests;
mod open_request;
mod options;
mod planted;
mod port;
mod requests;
mod resends;
mod session;
mod sink;
mod socket;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bbq_intake::simulated::ServedTokens;
use bbq_sink::{Goal, Resent, SinkStep, Skip};
use bbq_spool::{
    Cursor, Entry, GroupRead, Source, Spool, SpoolOptions, Step, SteppedTime, Storage, file_name_of,
};
use bbq_stored::{ListenerLedger, Retention, Streams};
use bbq_wire::StreamId;

use crate::bug::Bug;
use crate::disk::SimDisk;
use crate::network::Network;
use crate::note;
use crate::random::Random;
use crate::record::Record;
use crate::tokens;
use crate::trace::Trace;
pub(crate) use open_request::Answer;
use open_request::OpenRequest;
pub(crate) use options::{
    Destination, Limits, NAME_ENDS, RULES, ServerOptions, SinkOptions, leaves_out, name_of,
};
use planted::{Newest, Told};
use session::Session;
pub(crate) use sink::{OUTPUTS, Sink, outputs};
use worker::{Shared, Worker};

/// The path of the checkpoint of streams.
const CHECKPOINT: &str = "/data/streams";

/// The most rounds in which a stopping server waits for the disk.
const STOP_ROUNDS_MAX: u64 = 40;

/// A running server.
pub(crate) struct Server {
    options: ServerOptions,
    disk: SimDisk,
    time: Arc<SteppedTime>,
    spool: Arc<Spool>,
    shared: Shared,
    /// The workers, by lane.
    workers: Vec<Worker>,
    sessions: BTreeMap<u64, Session>,
    /// Numbered requests that are not answered.
    requests: Vec<OpenRequest>,
    is_stopping: bool,
    told: Told,
    newest: Newest,
    /// Records of all lanes when this server started.
    records_before: u64,
    /// The send buffer of a socket.
    socket_bytes: usize,
    random: Random,
    pub(crate) sinks: Vec<Sink>,
    /// Streams whose order was given up because their lane failed with unread messages.
    pub(crate) lost_order: BTreeSet<StreamId>,
    /// For the planted bug "checkpoint out of order": an old checkpoint that will be written over a newer one.
    late_checkpoint: Option<Vec<u8>>,
}

impl Server {
    /// Starts with the files on the disk.
    pub(crate) fn open(
        disk: &SimDisk,
        options: &ServerOptions,
        time: &Arc<SteppedTime>,
    ) -> Result<Server, String> {
        let sources = vec![Source { name: "bbq".to_owned(), drops_oldest: options.drops_oldest }];
        let spool_options = SpoolOptions {
            segment_bytes: options.segment_bytes,
            bytes_max: options.bytes_max,
            flush_interval: options.flush_interval,
            hot_bytes_max: options.hot_bytes_max,
            ..SpoolOptions::new(PathBuf::from("/data"), options.lanes, sources)
        };
        disk.set_faults(|faults| {
            faults.believes_cache = options.bug == Some(Bug::CleanPagesBelieved);
            // A program that trusts the page cache does not drop it, either.
            let keeps_cached = [Some(Bug::CleanPagesBelieved), Some(Bug::CachedPagesWrittenAgain)];
            faults.keeps_cached = keeps_cached.contains(&options.bug);
        });
        let spool = Spool::open_stepped(Arc::new(disk.clone()), &spool_options, time);
        disk.set_faults(|faults| (faults.believes_cache, faults.keeps_cached) = (false, false));
        let spool = spool.map_err(|error| error.to_string())?;
        let spool = Arc::new(spool);
        let seconds = time.unix_ns.load(Ordering::Relaxed) / 1_000_000_000;
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let streams = if options.has_crowd {
            let most = tokens::STREAMS_MAX;
            Streams::recover_at_most(storage, Path::new("/data"), &spool, seconds, most)
                .map(|streams| streams.guarded(true))
        } else {
            Streams::recover(storage, Path::new("/data"), &spool, seconds)
        };
        let has_one_name = matches!(options.bug, Some(Bug::NoOwners | Bug::ForgetsByAge));
        let tokens =
            options.has_crowd.then(|| ServedTokens::of_text(&tokens::tokens(has_one_name))).transpose()?;
        let streams = Arc::new(streams.map_err(|error| format!("streams: {error}"))?);
        let retention = Retention::new(Arc::clone(&spool), Arc::clone(&streams), options.sinks.len());
        let retention = Arc::new(retention);
        let sinks = (0..options.sinks.len())
            .map(|index| Sink::new(disk, &spool, &retention, time, index, options))
            .collect::<Result<Vec<Sink>, String>>()?;
        let lanes = spool.lanes();
        let mut random = Random::new(time.now_ns.load(Ordering::Relaxed) ^ options.salt);
        let workers: Vec<Worker> = lanes.iter().map(|lane| Worker::new(lane.clone())).collect();
        Ok(Server {
            options: options.clone(),
            disk: disk.clone(),
            time: Arc::clone(time),
            told: Told::new(options.bug, lanes.len()),
            shared: Shared { lanes, streams, retention, tokens, ledger: ListenerLedger::default() },
            newest: Newest::default(),
            workers,
            records_before: spool.ends().iter().map(|end| end.record).sum(),
            spool,
            sessions: BTreeMap::new(),
            requests: Vec::new(),
            is_stopping: false,
            sinks,
            lost_order: BTreeSet::new(),
            late_checkpoint: None,
            socket_bytes: if random.one_in(3) { random.between(8, 300) as usize } else { usize::MAX },
            random,
        })
    }

    fn now_ns(&self) -> u64 {
        self.time.unix_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn lanes(&self) -> usize {
        self.workers.len()
    }

    /// Records of all lanes in all runs.
    pub(crate) fn records(&self) -> u64 {
        self.spool.ends().iter().map(|end| end.record).sum()
    }

    /// An error text if the listener and the lanes have counted different numbers of records since the start. Called when nothing
    /// is in progress.
    pub(crate) fn imbalance(&self) -> Option<String> {
        let (before, spooled, records) = (self.records_before, self.shared.ledger.spooled(), self.records());
        (!self.has_failed() && before + spooled != records).then(|| {
            format!("the listener counts {spooled} records after the first {before}, but the lanes count {records}")
        })
    }

    /// Streams that were forgotten since the data directory was created.
    pub(crate) fn forgotten(&self) -> u64 {
        self.shared.streams.forgotten_total()
    }

    /// Whether a lane has failed: it acknowledges nothing more.
    pub(crate) fn has_failed(&self) -> bool {
        self.shared.lanes.iter().any(|lane| lane.failure().is_some())
    }

    /// A worker handles a connection.
    pub(crate) fn serve(&mut self, number: u64, network: &mut Network, trace: &mut Trace) {
        let Some(connection) = network.get(number).filter(|connection| !connection.done) else {
            self.sessions.remove(&number);
            return;
        };
        if connection.up.arrived.is_empty()
            && !self.sessions.contains_key(&number)
            && !connection.up.is_at_end()
        {
            return;
        }
        self.drive(number, connection, trace);
        if connection.done {
            network.finish(number);
        }
    }

    /// One step of a lane's writer.
    pub(crate) fn write(&mut self, lane: usize, trace: &mut Trace) -> Step {
        let step = self.spool.step(lane);
        if !matches!(step, Step::Waits(_)) {
            note!(trace, "lane {lane} {step:?}, {:?}", self.shared.lanes[lane].durable());
        }
        step
    }

    /// The worker of a lane learns what is durable, and acknowledges this.
    pub(crate) fn settle(&mut self, lane: usize, network: &mut Network, trace: &mut Trace) {
        let durable = self.told.durable(lane, self.shared.lanes[lane].durable());
        let seconds = self.now_ns() / 1_000_000_000;
        self.workers[lane].follow(&self.shared, durable, seconds);
        for (number, session) in &self.sessions {
            let Some(connection) = network.get(*number) else { continue };
            let carried = session.socket.0.carry(connection);
            if carried > 0 {
                note!(trace, "server acknowledges on {number}: {carried} bytes");
            }
        }
    }

    /// A step of a sink.
    pub(crate) fn deliver(&mut self, sink: usize, goal: Goal, trace: &mut Trace) {
        let sink = &mut self.sinks[sink];
        match sink.step(if sink.is_paused { Goal::Hold } else { goal }) {
            Ok(SinkStep::Idle(_)) => {}
            Ok(step) => note!(trace, "{} {step:?}, committed {:?}", sink.name, sink.ledger()),
            Err(why) => note!(trace, "{}: {why}", sink.name),
        }
    }

    /// An operator has a sink pass messages. After a chance, the server has other plans in the middle of it.
    pub(crate) fn skip(&mut self, sink: usize, skip: Skip, trace: &mut Trace) {
        let goes_on = if self.random.one_in(4) { self.random.below(4) } else { u64::MAX };
        let sink = &mut self.sinks[sink];
        sink.receiver().into_iter().for_each(|receiver| receiver.skip());
        let skipped = sink.skip(skip, goes_on);
        note!(trace, "{} {skip:?}: {skipped:?}, committed {:?}", sink.name, sink.ledger());
        if self.options.bug == Some(Bug::SkippedForgotten) {
            let lane = letters_of(&sink.name).join("spool/lane-0");
            for path in self.disk.names(&lane) {
                self.disk.take_away(&path);
            }
        }
    }

    /// An operator sends the dead letters of a sink again.
    pub(crate) fn resend(&mut self, sink: usize, trace: &mut Trace) -> Result<Resent, String> {
        let draws = self.random.fork();
        let sink = &mut self.sinks[sink];
        let resent = sink.resend(&self.disk, draws);
        note!(trace, "{} resend: {resent:?}", sink.name);
        if self.options.bug == Some(Bug::ResendForgetsItsPlace) {
            let directory = letters_of(sink.present_name());
            let cursors = directory.with_added_extension("resend").join("cursors");
            for path in self.disk.names(&cursors) {
                self.disk.take_away(&path);
            }
        }
        resent
    }

    /// An operator gives a sink another of its names. Returns whether the sink has it.
    pub(crate) fn rename(&mut self, sink: usize, name: &str, trace: &mut Trace) -> bool {
        let sink = &mut self.sinks[sink];
        let renamed = sink.rename(name);
        note!(trace, "{} is renamed to {name}: {renamed:?}", sink.name);
        renamed.is_ok()
    }

    /// The records among the dead letters of a sink, under each of its names, and also those that are on their way.
    pub(crate) fn letters_of_all_names(&mut self, sink: usize) -> Result<BTreeSet<Record>, String> {
        self.sinks[sink].close_letters();
        let mut letters = BTreeSet::new();
        for name in 0..NAME_ENDS.len() {
            let directory = letters_of(&name_of(sink, name));
            for directory in [directory.with_added_extension("resend"), directory] {
                if !self.disk.names(&directory).is_empty() {
                    letters.append(&mut self.letters_in(directory)?);
                }
            }
        }
        Ok(letters)
    }

    /// The records among the dead letters of a sink.
    pub(crate) fn letters(&mut self, sink: usize) -> Result<BTreeSet<Record>, String> {
        self.sinks[sink].close_letters();
        self.letters_in(letters_of(&self.sinks[sink].name))
    }

    fn letters_in(&self, directory: PathBuf) -> Result<BTreeSet<Record>, String> {
        let spool = self.spool.open_beside(&SpoolOptions::new(directory, 1, Vec::new()));
        let spool = spool.map_err(|error| format!("dead letters: {error}"))?;
        let cursor = Cursor { places: spool.beginnings(), ..Cursor::default() };
        let mut letters = BTreeSet::new();
        for mut reader in spool.readers(&cursor) {
            let mut take = |entry: &Entry<'_>| {
                let texts = entry.batch.records().map(String::from_utf8_lossy);
                letters.extend(texts.filter_map(|text| Record::read(&text)));
            };
            while !matches!(reader.read(&mut take).map_err(|error| error.to_string())?, GroupRead::CaughtUp) {
            }
        }
        Ok(letters)
    }

    /// Moves bytes between the network and the sinks that pass messages on.
    pub(crate) fn carry(&self, network: &mut Network) {
        self.sinks.iter().filter_map(|sink| sink.port.as_ref()).for_each(|port| port.carry(network));
    }

    /// The process ends: so do the connections of the sinks that pass messages on.
    pub(crate) fn end_links(&self, network: &mut Network, random: &mut Random) {
        self.sinks.iter().filter_map(|sink| sink.port.as_ref()).for_each(|port| port.end(network, random));
    }

    /// The retention thread does what was requested.
    pub(crate) fn retire(&mut self, trace: &mut Trace) {
        if self.spool.is_room_wanted() {
            self.shared.retention.retire();
        }
        let before = self.spool.segments();
        let _room_is_asked_for_again = self.shared.retention.step();
        let after = self.spool.segments();
        if before != after {
            note!(trace, "segments are deleted: {after} of {before} are left");
        }
    }

    /// Requests a run of the retention thread.
    pub(crate) fn ask(&self, for_checkpoint: bool) {
        if for_checkpoint {
            self.shared.retention.request_checkpoint();
        } else {
            self.shared.retention.retire();
        }
    }

    /// For the planted bug "checkpoint out of order": keeps the present checkpoint, and writes it again later.
    pub(crate) fn put_late_checkpoint(&mut self) {
        if self.options.bug != Some(Bug::CheckpointOutOfOrder) {
            return;
        }
        let path = Path::new(CHECKPOINT);
        match self.late_checkpoint.take() {
            None => self.late_checkpoint = self.disk.contents(path).ok(),
            Some(bytes) => {
                let storage: &dyn Storage = &self.disk;
                let _disk_may_fail = storage.replace(path, &bytes);
            }
        }
    }

    /// Stops in order, as for a reload: received messages are written, and the sinks commit.
    pub(crate) fn stop(&mut self, network: &mut Network, trace: &mut Trace) {
        self.is_stopping = true;
        for _ in 0..=self.random.below(STOP_ROUNDS_MAX) {
            let numbers: Vec<u64> = self.sessions.keys().copied().collect();
            for number in numbers {
                self.serve(number, network, trace);
            }
            let settles = self.sessions.iter().find(|(_, session)| session.is_settling());
            assert!(settles.is_none(), "a hello waits for the disk, and its client is not told of the stop");
            if self.sessions.is_empty() || self.disk.halted().is_some() {
                break;
            }
            for lane in 0..self.workers.len() {
                self.write(lane, trace);
                self.settle(lane, network, trace);
            }
        }
        // The time is over. Clients that still wait for the disk reconnect later.
        for number in std::mem::take(&mut self.sessions).into_keys() {
            note!(trace, "server closes {number}");
            network.finish(number);
        }
        let unwritten = self.spool.close();
        note!(trace, "server stops, unwritten {unwritten:?}");
        if self.disk.halted().is_some() {
            return;
        }
        self.workers.iter().for_each(|worker| worker.give_up(&self.shared));
        for sink in 0..self.sinks.len() {
            self.deliver(sink, Goal::Hold, trace);
        }
        self.shared.retention.request_checkpoint();
        let _next_start_reads_more = self.shared.retention.step();
    }

    /// Whether everything that was received is delivered.
    pub(crate) fn is_drained(&self) -> bool {
        self.workers.iter().all(|worker| worker.pending() == 0) && self.sinks.iter().all(Sink::is_drained)
    }

    /// What the server waits for, for error messages.
    pub(crate) fn describe(&self) -> String {
        let waits: Vec<String> = self.shared.lanes.iter().map(|lane| format!("{:?}", lane.view())).collect();
        let sinks: Vec<String> = self.sinks.iter().map(Sink::describe).collect();
        let pending: Vec<usize> = self.workers.iter().map(Worker::pending).collect();
        let usage = self.spool.usage();
        format!(
            "pending {pending:?}; {}; {}; {} of {} bytes; {} segments",
            waits.join(", "),
            sinks.join("; "),
            usage.bytes(),
            usage.bytes_max(),
            self.spool.segments()
        )
    }
}

/// The directory of a sink's dead letters.
fn letters_of(sink: &str) -> PathBuf {
    Path::new("/data/dead-letters").join(file_name_of(sink))
}
