//! Takes the steps of sinks one by one, on a real disk.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bbq_sink::{Goal, Kinds, OLDEST, SinkDriver, SinkLedger, SinkOpening, SinkStep};
use bbq_spool::limits::READ_BYTES_TARGET;
use bbq_spool::{
    DiskStorage, Envelope, NameMark, OpenMode, Source, Spool, SpoolOptions, Step, SteppedTime, StorageFile,
};
use bbq_storage::Storage;
use bbq_storage::forwarding::{ForwardingFile, ForwardingStorage};
use bbq_stored::{Retention, Streams};
use bbq_wire::batch::BatchIdentity;
use bbq_wire::limits::MESSAGE_BYTES_MAX;
use bbq_wire::{Batch, BatchBuilder, Compression, Peer, SourceKind, StreamId};
use chrono::Utc;
use tempfile::TempDir;

use super::file::FileOutput;
use super::output::Output;
use super::*;

static KINDS: Kinds = Kinds { present: &[&FILE, &STDOUT, &bbq_sink::NULL], left_out: &[] };

const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;

/// A spool, and a sink of it.
struct Rig {
    directory: TempDir,
    spool: Arc<Spool>,
    sink: SinkDriver,
    ledger: Arc<SinkLedger>,
    monotonic: Duration,
    /// The day of the wall clock.
    day: u64,
    next_sequence: u64,
}

impl Rig {
    /// The sink writes to the file `output` in the directory; `prepare` may create it before.
    fn new(lanes: u32, query: &str, prepare: impl FnOnce(&Path)) -> Rig {
        Rig::of(lanes, prepare, |output| format!("file:{}{query}", output.display()))
    }

    fn of(lanes: u32, prepare: impl FnOnce(&Path), spec: impl FnOnce(&Path) -> String) -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Storage> = Arc::new(DiskStorage);
        let data = directory.path().join("data");
        let options = SpoolOptions {
            segment_bytes: 1024 * 1024,
            hot_bytes_max: 0,
            ..SpoolOptions::new(data.clone(), lanes, vec![Source::from("test")])
        };
        let time = Arc::new(SteppedTime::default());
        let spool = Arc::new(Spool::open_stepped(Arc::clone(&disk), &options, &time).unwrap());
        let streams = Arc::new(Streams::recover(Arc::clone(&disk), &data, &spool, 0).unwrap());
        let retention = Arc::new(Retention::new(Arc::clone(&spool), streams, 1));
        let output = directory.path().join("output");
        prepare(&output);
        let spec = KINDS.parse(&spec(&output)).unwrap();
        let opening = SinkOpening::new(0, &spec, &spool, retention, disk).unwrap();
        let ledger = Arc::clone(&opening.ledger);
        let (monotonic, day) = (Duration::ZERO, 1);
        let sink = opening.open(Now::new(monotonic, day * DAY_NS)).map_err(|(_, why)| why).unwrap();
        Rig { directory, spool, sink, ledger, monotonic, day, next_sequence: 1 }
    }

    /// Makes a batch of these records durable, as a group of its own.
    fn put(&mut self, lane: usize, records: &[&[u8]]) {
        let mut builder = BatchBuilder::new();
        records.iter().for_each(|record| builder.push(record));
        let identity = BatchIdentity {
            stream: StreamId([1; 16]),
            first_sequence: self.next_sequence,
            base_time_ns: 0,
            source: SourceKind::Bbq,
            compression: Compression::Lz4,
        };
        self.next_sequence += records.len() as u64;
        let bytes = builder.finish(&identity).unwrap();
        let header = Batch::peek(bytes).unwrap().unwrap();
        let envelope =
            Envelope { source: 0, received_ns: 1, peer: Peer::Unnamed, name_mark: NameMark::NOBODY };
        let group = self.spool.lanes()[lane].append(&envelope, &header, bytes, true).unwrap();
        while self.spool.lanes()[lane].durable().group < group {
            assert!(!matches!(self.spool.step(lane), Step::Waits(None)), "the lane waits");
        }
    }

    fn step(&mut self) -> SinkStep {
        self.sink.step(Now::new(self.monotonic, self.day * DAY_NS), Goal::Deliver)
    }

    /// Delivers all there is, and commits.
    fn deliver(&mut self) {
        loop {
            let step = self.step();
            self.monotonic += Duration::from_millis(50);
            match step {
                SinkStep::Progressed => {}
                SinkStep::Idle(_) if self.sink.is_drained() => return,
                SinkStep::Idle(_) => {}
                other => panic!("{other:?}: {:?}", self.ledger.problem()),
            }
        }
    }

    /// Output files that were set aside.
    fn set_aside(&self) -> usize {
        let names = fs::read_dir(self.directory.path()).unwrap();
        names
            .filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().starts_with("output."))
            .count()
    }
}

fn make_pipe(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
}

/// A pipe that is open for reading but that nobody reads.
fn make_stuck_pipe(path: &Path) -> File {
    make_pipe(path);
    // Both ends, so that opening it does not wait.
    File::options().read(true).write(true).open(path).unwrap()
}

#[test]
fn records_that_were_deleted_are_counted_once_while_the_output_is_blocked() {
    let mut pipe = None;
    let mut rig = Rig::new(2, "", |path| pipe = Some(make_stuck_pipe(path)));
    // More than the pipe holds, and random enough to fill segments.
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let large: Vec<u8> = std::iter::repeat_with(&mut noise).take(300_000).collect();
    rig.put(0, &[&large]);
    for _segment_and_more in 0..6 {
        rig.put(1, &[&large]);
    }
    assert!(rig.spool.drop_oldest(&rig.spool.ends()));
    let deleted = rig.spool.beginnings()[1].record;
    assert!(deleted > 0);
    let counted = |rig: &Rig| {
        let account = rig.ledger.account();
        let ahead = rig.spool.beginnings().iter().map(|place| account.deleted_ahead(place)).sum::<u64>();
        account.dropped.values().sum::<u64>() + ahead
    };
    assert_eq!(counted(&rig), deleted);
    assert_eq!(rig.step(), SinkStep::Blocked { is_clean: false });
    assert_eq!(counted(&rig), deleted);
    let reader = pipe.unwrap();
    std::thread::scope(|scope| {
        let all = 300_001 * (7 - deleted);
        scope.spawn(move || io::copy(&mut io::Read::take(reader, all), &mut io::sink()).unwrap());
        while !rig.sink.is_drained() {
            rig.monotonic += Duration::from_millis(50);
            rig.step();
        }
    });
    assert_eq!(counted(&rig), deleted);
    let account = rig.ledger.account();
    assert_eq!((account.dropped[OLDEST], account.delivered), (deleted, 7 - deleted));
}

/// A few KiB on the wire may be 16 MiB of messages, and six times that in JSON.
#[test]
fn a_batch_that_grows_a_hundredfold_takes_little_memory() {
    let mut pipe = None;
    let mut rig = Rig::new(1, "?format=json", |path| pipe = Some(make_stuck_pipe(path)));
    let zeros = vec![0; 1024 * 1024];
    rig.put(0, &[zeros.as_slice(); 15]);
    assert_eq!(rig.step(), SinkStep::Blocked { is_clean: false });
    let (bytes, _) = rig.sink.memory();
    assert!(bytes <= 16 * 1024 * 1024, "{bytes} bytes");
    drop(pipe);
}

#[test]
fn a_sink_without_a_state_is_committed_too() {
    let mut rig = Rig::of(2, |_| {}, |_| "null:".to_owned());
    rig.put(0, &[b"one", b"two"]);
    rig.put(1, &[b"three"]);
    rig.deliver();
    let committed = rig.sink.committed();
    assert_eq!(committed.delivered, 3);
    assert_eq!(committed.places, rig.spool.ends());
}

#[test]
fn what_one_large_message_took_is_given_back() {
    let mut rig = Rig::new(1, "?format=json", |_| {});
    rig.put(0, &[&vec![0; MESSAGE_BYTES_MAX as usize]]);
    rig.deliver();
    assert!(fs::metadata(rig.directory.path().join("output")).unwrap().len() > 6 * 8 * 1024 * 1024);
    let (output, unpacked) = rig.sink.memory();
    assert!(output <= OUTPUT_BUFFER_BYTES_MAX, "{output} bytes");
    assert!(unpacked <= READ_BYTES_TARGET, "{unpacked} bytes");
}

#[test]
fn a_file_is_of_the_day_of_its_first_message() {
    let mut rig = Rig::new(1, "?rotate=daily", |_| {});
    rig.deliver();
    // The file is empty for two days.
    rig.day = 3;
    rig.put(0, &[b"of the third"]);
    rig.deliver();
    assert_eq!(rig.set_aside(), 0);
    rig.day = 4;
    rig.put(0, &[b"of the fourth"]);
    rig.deliver();
    assert_eq!(rig.set_aside(), 1);
    rig.day = 6;
    rig.put(0, &[b"of the sixth"]);
    rig.deliver();
    assert_eq!(rig.set_aside(), 1);
    assert_eq!(fs::read(rig.directory.path().join("output")).unwrap(), b"of the sixth\n");
}

/// A disk that once fails to say which file is at a path.
struct FailsOnce {
    fails: Arc<AtomicBool>,
}

struct FileThatFailsOnce {
    file: Box<dyn StorageFile>,
    fails: Arc<AtomicBool>,
}

impl ForwardingStorage for FailsOnce {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        let file = DiskStorage.open(path, mode)?;
        Ok(Box::new(FileThatFailsOnce { file, fails: Arc::clone(&self.fails) }))
    }
}

impl ForwardingFile for FileThatFailsOnce {
    fn inner(&self) -> &dyn StorageFile {
        &*self.file
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        if self.fails.swap(false, Ordering::Relaxed) {
            return Err(io::Error::other("it does not say"));
        }
        self.file.is_at(path)
    }
}

#[test]
fn a_file_whose_name_cannot_be_looked_up_is_not_taken_for_moved_away() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.log");
    let disk = Arc::new(FailsOnce { fails: Arc::default() });
    let storage: Arc<dyn Storage> = Arc::clone(&disk) as Arc<dyn Storage>;
    let mut output = FileOutput::open(&storage, &path, Rotation::default(), None, Utc::now()).unwrap();
    output.write(b"one\n", &mut 0, Utc::now()).unwrap();
    output.commit().unwrap();
    disk.fails.store(true, Ordering::Relaxed);
    let error = output.follow(Utc::now()).unwrap_err().to_string();
    assert!(error.contains("does not say") && error.contains("out.log"), "{error}");
    assert!(!output.follow(Utc::now()).unwrap());
    output.begin_rotation(Utc::now()).unwrap();
    disk.fails.store(true, Ordering::Relaxed);
    let error = output.rotate(Utc::now()).unwrap_err().to_string();
    assert!(error.contains("does not say"), "{error}");
    output.rotate(Utc::now()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}
