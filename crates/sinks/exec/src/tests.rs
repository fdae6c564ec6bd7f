//! Takes the steps of a sink with real commands. The time of a step is the real one, with the pauses between steps, which nobody waits for, and
//! with what a test adds to it.

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

use super::limit::FAILED_FOR;
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
    /// What is added to the time.
    skipped: Duration,
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
            skipped: Duration::ZERO,
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
        Now::new(self.begin.elapsed() + self.skipped, DAY_NS)
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
            if !is_done(self) {
                self.skipped += pause;
            }
        }
    }

    /// Delivers so many messages, and commits.
    fn deliver(&mut self, messages: u64) {
        self.work(Goal::Deliver, |rig| {
            rig.ledger.account().delivered == messages && rig.sink.as_ref().unwrap().is_drained()
        });
    }

    /// Steps until the command has failed on a message alone.
    fn fail_alone(&mut self) {
        self.work(Goal::Deliver, |rig| {
            rig.ledger.problem().is_some_and(|why| why.contains("a single message"))
        });
    }

    /// The same for a minute, until the message is rejected: so many are then.
    fn reject(&mut self, refused: u64) {
        self.fail_alone();
        self.skipped += FAILED_FOR;
        self.work(Goal::Deliver, |rig| rig.refused() == refused);
    }

    fn refused(&self) -> u64 {
        let dropped = self.ledger.account().dropped;
        assert!(dropped.keys().all(|reason| reason == "refused"), "{dropped:?}");
        dropped.get("refused").copied().unwrap_or_default()
    }

    /// The bytes of the dead letters' spool.
    fn letters(&self) -> String {
        let spools = fs::read_dir(self.path("data/dead-letters")).unwrap();
        let lanes = spools.map(|spool| spool.unwrap().path().join("spool/lane-0"));
        let files = lanes.flat_map(|lane| fs::read_dir(lane).unwrap());
        let bytes = files.flat_map(|file| fs::read(file.unwrap().path()).unwrap());
        String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
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
    let begin = rig.now().monotonic;
    rig.deliver(200);
    let took = rig.now().monotonic - begin;
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
    let begin = rig.now().monotonic;
    rig.work(Goal::Drain, |_| false);
    let took = rig.now().monotonic - begin;
    assert_eq!((rig.written("out"), rig.ledger.account().delivered), (numbers(0..10), 10));
    assert!(took < Duration::from_millis(2500), "it took {took:?}");
}

/// Fails on each message that begins with `bad`. Acknowledges each line.
const FAILS_ON_BAD: &str = "while IFS= read -r line; do
    case $line in bad*) echo \"no $line\" >&2; exit 1;; esac
    echo \"$line\" >> $d/out
    echo $((number += 1))
done";

#[test]
fn a_message_on_which_the_command_fails_for_a_minute_becomes_a_dead_letter() {
    let mut rig = Rig::new(FAILS_ON_BAD, "?ack=line");
    rig.put((0..100).map(|number| number.to_string()));
    rig.put(["bad one".to_owned(), "100".to_owned(), "bad two".to_owned()]);
    rig.put((101..2000).map(|number| number.to_string()));
    rig.reject(1);
    rig.reject(2);
    rig.deliver(2000);
    assert_eq!((rig.written("out"), rig.refused()), (numbers(0..2000), 2));
    let letters = rig.letters();
    for text in ["bad one", "bad two", "the command ended with exit code 1: no bad two"] {
        assert!(letters.contains(text), "{text}");
    }
    assert_eq!(rig.ledger.problem(), None);
}

#[test]
fn a_command_that_fails_for_now_costs_no_message() {
    let mut rig =
        Rig::new("echo run >> $d/runs\n[ -e $d/go ] || exit 75\ntee -a $d/out | wc -l", "?ack=line");
    rig.put(["0".to_owned()]);
    for runs in [3, 6] {
        rig.work(Goal::Deliver, |rig| rig.written("runs").lines().count() == runs);
        rig.skipped += FAILED_FOR;
    }
    assert!(
        rig.ledger.problem().is_some_and(|why| why.ends_with("exit code 75")),
        "{:?}",
        rig.ledger.problem()
    );
    fs::write(rig.path("go"), "").unwrap();
    // `wc` counts at the end of its input.
    rig.work(Goal::Drain, |_| false);
    assert_eq!((rig.written("out"), rig.refused()), (numbers(0..1), 0));
}

/// Neither an outage nor a pause counts towards the minute of the message that comes next.
#[test]
fn each_message_has_a_minute_of_its_own() {
    let mut rig = Rig::new("echo run >> $d/runs\nexit $(cat $d/code 2> /dev/null || echo 1)", "?ack=line");
    rig.put(["0".to_owned()]);
    let run = |rig: &mut Rig| {
        let runs = rig.written("runs").lines().count();
        rig.work(Goal::Deliver, |rig| rig.written("runs").lines().count() == runs + 2);
    };
    run(&mut rig);
    fs::write(rig.path("code"), "75").unwrap();
    run(&mut rig);
    rig.skipped += 2 * FAILED_FOR;
    fs::write(rig.path("code"), "1").unwrap();
    run(&mut rig);
    rig.skipped += FAILED_FOR / 2;
    rig.work(Goal::Hold, |_| false);
    rig.skipped += 2 * FAILED_FOR;
    run(&mut rig);
    assert_eq!(rig.refused(), 0);
    rig.reject(1);
}

/// Acknowledges 16 lines together, or those before the end of its input. What it fails on is in the middle of them.
const COLLECTS: &str = "flush() { printf '%s' \"$lines\" >> $d/out; lines=; echo $number; }
number=0
lines=
while IFS= read -r line; do
    number=$((number + 1))
    case $line in bad*) exit 1;; esac
    lines=\"$lines$line
\"
    [ $((number % 16)) != 0 ] || flush
done
flush";

#[test]
fn a_command_that_collects_messages_gets_the_bad_one_alone() {
    let mut rig = Rig::new(COLLECTS, "?ack=line");
    rig.put((0..37).map(|number| number.to_string()));
    rig.put(["bad".to_owned()]);
    rig.put((37..96).map(|number| number.to_string()));
    rig.reject(1);
    // The last of them are fewer than 16.
    rig.work(Goal::Drain, |_| false);
    assert_eq!((rig.written("out"), rig.refused()), (numbers(0..96), 1));
}

/// Takes long to start. Then it takes what has come once nothing more comes for a moment, and forgets it at the end of its input.
const COLLECTS_FOR_A_MOMENT: &str = r#"
import os, select, sys, time
time.sleep(1.5)
number, held = 0, b""
while True:
    if select.select([0], [], [], 0.1)[0]:
        held += (read := os.read(0, 65536))
        if not read:
            sys.exit(0)
    elif held:
        number += held.count(b"\n")
        os.write(os.open("out", os.O_WRONLY | os.O_APPEND | os.O_CREAT), held)
        held = b""
        print(number, flush=True)
"#;

#[test]
fn a_command_that_collects_for_a_moment_has_the_time_behind_a_limit() {
    let mut rig = Rig::new("cd $d; [ -e go ] || exit 1; exec python3 collects", "?ack=line");
    fs::write(rig.path("collects"), COLLECTS_FOR_A_MOMENT).unwrap();
    rig.put((0..20).map(|number| number.to_string()));
    rig.fail_alone();
    fs::write(rig.path("go"), "").unwrap();
    let begin = rig.now().monotonic;
    rig.deliver(20);
    let took = rig.now().monotonic - begin;
    assert_eq!((rig.written("out"), rig.refused()), (numbers(0..20), 0));
    assert!(took < FAILED_FOR / 2, "it took {took:?}");
}

/// Before the minute is over, and when the letter is counted and not committed yet.
#[test]
fn a_kill_loses_and_doubles_nothing_around_a_dead_letter() {
    let mut rig = Rig::new(FAILS_ON_BAD, "?ack=line");
    rig.put((0..10).map(|number| number.to_string()).chain(["bad".to_owned()]));
    rig.put((10..20).map(|number| number.to_string()));
    rig.fail_alone();
    rig.sink = None;
    rig.start();
    assert_eq!((rig.ledger.account().delivered, rig.refused()), (10, 0));
    rig.reject(1);
    rig.sink = None;
    rig.start();
    // Unless the commit was quicker.
    if rig.refused() == 0 {
        rig.reject(1);
    }
    rig.deliver(20);
    assert_eq!((rig.written("out"), rig.refused()), (numbers(0..20), 1));
    rig.sink = None;
    rig.start();
    assert_eq!((rig.ledger.account().delivered, rig.refused()), (20, 1));
}

/// With `ack=read`, what the command has not read says nothing about a message.
#[test]
fn a_command_that_reads_nothing_costs_no_message() {
    let mut rig = Rig::new("echo run >> $d/runs; exit 1", "?ack=read");
    rig.put(["0".to_owned()]);
    for runs in 1..4 {
        rig.work(Goal::Deliver, |rig| rig.written("runs").lines().count() == runs);
        rig.skipped += 2 * FAILED_FOR;
    }
    rig.write_script("cat >> $d/out");
    rig.deliver(1);
    assert_eq!((rig.written("out"), rig.refused()), (numbers(0..1), 0));
}

/// Behind a limit, the input of a command ends while the server works.
#[test]
fn a_command_that_does_not_end_behind_a_limit_is_ended() {
    let mut rig = Rig::new(
        "[ -e $d/go ] || exit 1\nwhile read line; do echo \"$line\" >> $d/out; echo $((n += 1)); done; exec sleep 1000",
        "?ack=line",
    );
    rig.put((0..3).map(|number| number.to_string()));
    rig.fail_alone();
    fs::write(rig.path("go"), "").unwrap();
    for taken in [1, 3] {
        rig.work(Goal::Deliver, |rig| rig.ledger.account().delivered == taken);
        // It has five seconds, and then one until it is killed.
        rig.skipped += Duration::from_secs(10);
    }
    rig.deliver(3);
    assert_eq!(rig.written("out"), numbers(0..3));
}

#[test]
fn a_slow_command_has_its_time_behind_a_limit() {
    let mut rig = Rig::new(
        "[ -e $d/go ] || exit 1\necho run >> $d/runs\nwhile read line; do
            echo \"$line\" >> $d/out
            while [ ! -e $d/done ]; do sleep 0.01; done
            echo $((n += 1))
        done",
        "?ack=line",
    );
    rig.put((0..3).map(|number| number.to_string()));
    rig.fail_alone();
    fs::write(rig.path("go"), "").unwrap();
    rig.work(Goal::Deliver, |rig| !rig.written("out").is_empty());
    for _ in 0..5 {
        // Longer than a command may live that closes its input, or does not end at its end.
        rig.skipped += Duration::from_secs(10);
        let begin = Instant::now();
        rig.work(Goal::Deliver, |_| begin.elapsed() > Duration::from_millis(200));
    }
    fs::write(rig.path("done"), "").unwrap();
    rig.deliver(3);
    assert_eq!((rig.written("out"), rig.written("runs").lines().count()), (numbers(0..3), 2));
}
