//! Takes the steps of a sink with real commands.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bbq_sink::{Goal, Kinds, Now, SinkDriver, SinkLedger, SinkOpening, SinkStep};
use bbq_spool::{DiskStorage, Envelope, NameMark, Source, Spool, SpoolOptions, Step, SteppedTime};
use bbq_storage::Storage;
use bbq_stored::{Retention, Streams};
use bbq_wire::batch::BatchIdentity;
use bbq_wire::{Batch, BatchBuilder, Compression, Peer, SourceKind, StreamId};
use tempfile::TempDir;

use super::*;

static KINDS: Kinds = Kinds { present: &[&EXEC], left_out: &[] };

/// Nothing that a test waits for takes so long, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest pause between two steps while the server stops, as the sink's thread has it.
const DRAIN_PAUSE_MAX: Duration = Duration::from_millis(500);
const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;

/// A spool, and a sink of it.
struct Rig {
    directory: TempDir,
    spool: Arc<Spool>,
    /// `None` while the server does not run.
    sink: Option<SinkDriver>,
    ledger: Arc<SinkLedger>,
    streams: Arc<Streams>,
    query: &'static str,
    begin: Instant,
    next_sequence: u64,
}

impl Rig {
    /// The sink runs a script of the shell in the directory `$d`.
    fn new(script: &str, query: &'static str) -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Storage> = Arc::new(DiskStorage);
        let data = directory.path().join("data");
        let options = SpoolOptions {
            segment_bytes: 1024 * 1024,
            hot_bytes_max: 0,
            ..SpoolOptions::new(data.clone(), 1, vec![Source::from("test")])
        };
        let time = Arc::new(SteppedTime::default());
        let spool = Arc::new(Spool::open_stepped(Arc::clone(&disk), &options, &time).unwrap());
        let streams = Arc::new(Streams::recover(disk, &data, &spool, 0).unwrap());
        let mut rig = Rig {
            ledger: Arc::default(),
            sink: None,
            begin: Instant::now(),
            next_sequence: 1,
            directory,
            spool,
            streams,
            query,
        };
        rig.write_script(script);
        rig.start();
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write_script(&self, script: &str) {
        let text = format!("d='{}'\n{script}\n", self.directory.path().display());
        fs::write(self.path("new"), text).unwrap();
        // A run reads the old script or the new one.
        fs::rename(self.path("new"), self.path("script")).unwrap();
    }

    /// Opens the sink at its cursor, as a start of the server does.
    fn start(&mut self) {
        let retention = Arc::new(Retention::new(Arc::clone(&self.spool), Arc::clone(&self.streams), 1));
        let text = format!("exec:exec sh {}{}&name=sink", self.path("script").display(), self.query);
        let spec = KINDS.parse(&text).unwrap();
        let opening = SinkOpening::new(0, &spec, &self.spool, retention, Arc::new(DiskStorage)).unwrap();
        self.ledger = Arc::clone(&opening.ledger);
        self.sink = Some(opening.open(self.now()).map_err(|(_, why)| why).unwrap());
    }

    fn now(&self) -> Now {
        Now::new(self.begin.elapsed(), DAY_NS)
    }

    /// Makes these messages durable, as a group.
    fn put(&mut self, messages: impl IntoIterator<Item = String>) {
        let mut builder = BatchBuilder::new();
        let messages: Vec<String> = messages.into_iter().collect();
        messages.iter().for_each(|message| builder.push(message.as_bytes()));
        let identity = BatchIdentity {
            stream: StreamId([1; 16]),
            first_sequence: self.next_sequence,
            base_time_ns: 0,
            source: SourceKind::Bbq,
            compression: Compression::Lz4,
        };
        self.next_sequence += messages.len() as u64;
        let bytes = builder.finish(&identity).unwrap();
        let header = Batch::peek(bytes).unwrap().unwrap();
        let envelope =
            Envelope { source: 0, received_ns: 1, peer: Peer::Unnamed, name_mark: NameMark::NOBODY };
        let lane = &self.spool.lanes()[0];
        let group = lane.append(&envelope, &header, bytes, true).unwrap();
        while lane.durable().group < group {
            assert!(!matches!(self.spool.step(0), Step::Waits(None)), "the lane waits");
        }
    }

    /// Steps as the sink's thread does, until `is_done` or the sink has drained.
    fn work(&mut self, goal: Goal, mut is_done: impl FnMut(&Rig) -> bool) {
        let (progress, begin) = (self.spool.progress(), Instant::now());
        while !is_done(self) {
            assert!(begin.elapsed() < PATIENCE, "{:?}, {:?}", self.ledger.account(), self.ledger.problem());
            let (seen, now) = (progress.generation(), self.now());
            let sink = self.sink.as_mut().unwrap();
            let pause = match sink.step(now, goal) {
                SinkStep::Progressed => continue,
                SinkStep::Idle(patience) => {
                    sink.wait(&progress, seen, patience);
                    continue;
                }
                SinkStep::Retry { pause, .. } if goal == Goal::Drain => pause.min(DRAIN_PAUSE_MAX),
                SinkStep::Retry { pause, .. } => pause,
                SinkStep::Drained | SinkStep::Held => return,
                other => panic!("{other:?}"),
            };
            let paused = Instant::now();
            while paused.elapsed() < pause && !is_done(self) {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
    }

    /// Delivers so many messages, and commits.
    fn deliver(&mut self, messages: u64) {
        self.work(Goal::Deliver, |rig| {
            rig.ledger.account().delivered == messages && rig.sink.as_ref().unwrap().is_drained()
        });
    }

    fn written(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

/// Each on a line, as a command gets them.
fn numbers(range: std::ops::Range<u64>) -> String {
    range.map(|number| format!("{number}\n")).collect()
}

/// Takes ten lines a run, and then fails.
const FAILS_AFTER_TEN: &str = "while IFS= read -r line; do
    echo \"$line\" >> $d/out
    echo $((number += 1))
    [ $number -lt 10 ] || exit 1
done";

/// With pauses that grew to five seconds, 200 messages took a minute.
#[test]
fn a_command_that_takes_messages_and_fails_is_not_slowed_down() {
    let mut rig = Rig::new(FAILS_AFTER_TEN, "?ack=line");
    rig.put((0..200).map(|number| number.to_string()));
    let begin = Instant::now();
    rig.deliver(200);
    let took = begin.elapsed();
    assert_eq!(rig.written("out"), numbers(0..200));
    assert!(took < Duration::from_secs(15), "it took {took:?}");
}

/// A stop begins during the pause after a failure, and must not wait for the longest of them.
#[test]
fn a_stop_tries_a_command_that_failed_after_a_short_pause() {
    let mut rig = Rig::new("echo run >> $d/runs\n[ -e $d/go ] || exit 1\ntee -a $d/out | wc -l", "?ack=line");
    rig.put((0..10).map(|number| number.to_string()));
    // The pause after so many failures has five seconds.
    rig.work(Goal::Deliver, |rig| rig.written("runs").lines().count() == 8);
    fs::write(rig.path("go"), "").unwrap();
    let begin = Instant::now();
    rig.work(Goal::Drain, |_| false);
    let took = begin.elapsed();
    assert_eq!((rig.written("out"), rig.ledger.account().delivered), (numbers(0..10), 10));
    assert!(took < Duration::from_millis(2500), "it took {took:?}");
}
