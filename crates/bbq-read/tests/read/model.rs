//! Writers, rotations and kills from a seed. If this fails, a line was lost, delivered twice or out of order in some course of events.
//!
//! `BBQ_READ_SEED=N` runs one seed, and `BBQ_READ_SEEDS=N` the first N.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bbq_read::{Pace, ReadSpec, Reader};
use bbq_storage::forwarding::ForwardingStorage;
use bbq_storage::{OpenMode, StorageFile};

use crate::basics::append;
use crate::store::{PACE, Random, Server};

const SEEDS: u64 = 200;
const STEPS: u64 = 60;
const LOGS: u64 = 3;
/// Passes that are enough for everything to be read.
const PASSES_MAX: u32 = 3000;

/// The disk of a process that can be killed: then nothing more is written.
struct Killable(Arc<AtomicBool>);

impl ForwardingStorage for Killable {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        if self.0.load(Ordering::Relaxed) {
            return Err(io::Error::other("killed"));
        }
        bbq_storage::Storage::open(&bbq_storage::DiskStorage, path, mode)
    }
}

/// A log that a program writes.
#[derive(Default)]
struct Log {
    lines: u64,
    rotations: u64,
    /// Bytes of a line that were written without the rest.
    half: Option<String>,
    /// Whether the reader has had the time to see the present file.
    is_seen: bool,
}

struct World {
    seed: u64,
    random: Random,
    directory: PathBuf,
    catalogs: PathBuf,
    /// Whether rotated files match the pattern.
    has_copies: bool,
    /// Characters that a line has at most: with long ones, the first line of a file is longer than what tells files apart.
    padding_max: u64,
    /// The end of each record: with a line feed in it, a record is an event of two lines.
    end: &'static str,
    logs: Vec<Log>,
    expected: BTreeSet<String>,
    server: Server,
    reader: Option<(Reader, Arc<AtomicBool>)>,
    now: Instant,
    pace: Pace,
    history: Vec<String>,
}

impl World {
    fn new(seed: u64, root: &Path) -> World {
        let mut random = Random(seed);
        let directory = root.join("logs");
        fs::create_dir(&directory).expect("a directory");
        World {
            seed,
            has_copies: random.once_in(2),
            padding_max: if random.once_in(3) { 1500 } else { 40 },
            end: if random.once_in(3) { "\n+end" } else { "end" },
            random,
            directory,
            catalogs: root.join("readers"),
            logs: (0..LOGS).map(|_| Log::default()).collect(),
            expected: BTreeSet::new(),
            server: Server::new(),
            reader: None,
            now: Instant::now(),
            pace: PACE,
            history: Vec::new(),
        }
    }

    fn note(&mut self, what: String) {
        self.history.push(what);
    }

    fn path(&self, log: usize) -> PathBuf {
        self.directory.join(format!("f{log}.log"))
    }

    fn rotated(&mut self, log: usize) -> PathBuf {
        self.logs[log].rotations += 1;
        self.directory.join(format!("f{log}.log.{}", self.logs[log].rotations))
    }

    fn write(&mut self, log: usize, path: &Path) {
        let mut text = String::new();
        for _ in 0..=self.random.below(5) {
            let line = match self.logs[log].half.take() {
                Some(line) => {
                    text.push_str(&format!("{}\n", self.end));
                    line
                }
                None => {
                    self.logs[log].lines += 1;
                    let padding = "x".repeat(self.random.below(self.padding_max) as usize);
                    let line = format!("{log}:{}:{padding}:{}", self.logs[log].lines, self.end);
                    text.push_str(&line);
                    text.push('\n');
                    line
                }
            };
            self.expected.insert(line);
        }
        append(path, &text);
        self.note(format!("append to {}: {text:?}", path.display()));
    }

    /// Writes the beginning of a line.
    fn write_half(&mut self, log: usize) {
        if self.logs[log].half.is_none() {
            self.logs[log].lines += 1;
            let beginning = format!("{log}:{}::", self.logs[log].lines);
            append(&self.path(log), &beginning);
            self.logs[log].half = Some(format!("{beginning}{}", self.end));
            self.note(format!("half a line to {log}"));
        }
    }

    fn finish_line(&mut self, log: usize) {
        if let Some(line) = self.logs[log].half.take() {
            append(&self.path(log), &format!("{}\n", self.end));
            self.expected.insert(line);
        }
    }

    /// Whether a file can lose its name without a loss that nobody can prevent.
    fn make_seen(&mut self, log: usize) {
        if !self.has_copies && !self.logs[log].is_seen {
            self.settle();
        }
    }

    fn rename(&mut self, log: usize) {
        self.finish_line(log);
        self.make_seen(log);
        if !self.has_copies && !self.logs[log].is_seen {
            return;
        }
        let (from, to) = (self.path(log), self.rotated(log));
        if fs::rename(&from, &to).is_err() {
            return;
        }
        self.logs[log].is_seen = false;
        self.note(format!("rename {log}"));
        if self.reader.is_some() && self.random.once_in(2) {
            // The program has not opened the new file yet.
            self.write(log, &to);
        }
        if self.random.once_in(2) {
            self.write(log, &from);
        }
    }

    fn copytruncate(&mut self, log: usize) {
        self.finish_line(log);
        let path = self.path(log);
        if !self.has_copies {
            self.settle();
        }
        let to = self.rotated(log);
        if fs::copy(&path, &to).is_err() {
            return;
        }
        self.note(format!("copy {log}"));
        self.pass_some();
        if self.random.once_in(4) {
            self.kill();
        }
        if self.random.once_in(2) {
            self.start();
            self.pass_some();
        }
        let file = fs::OpenOptions::new().write(true).truncate(true).open(&path);
        drop(file.expect("a file"));
        self.logs[log].is_seen = false;
        self.note(format!("truncate {log}"));
        if self.random.once_in(2) {
            self.write(log, &path);
        }
    }

    /// Copies and truncates a log several times, with or without a reader that has hardly the time to see it.
    fn copytruncate_often(&mut self, log: usize) {
        if self.random.once_in(2) {
            self.kill();
        }
        for _ in 0..2 + self.random.below(3) {
            self.copytruncate(log);
            let path = self.path(log);
            self.write(log, &path);
            if self.random.once_in(3) {
                self.pass();
            }
        }
    }

    fn delete(&mut self, log: usize) {
        self.finish_line(log);
        self.settle();
        let path = self.path(log);
        if !path.exists() {
            return;
        }
        self.write(log, &path);
        // An idle file is closed, and opened as soon as it grows.
        self.pass();
        fs::remove_file(&path).expect("a file");
        self.logs[log].is_seen = false;
        self.note(format!("delete {log}"));
        if self.random.once_in(2) {
            // The new file gets the inode as soon as the reader leaves the old one.
            self.write(log, &path);
        }
        self.settle();
    }

    fn compress(&mut self, log: usize) {
        self.settle();
        let Some(number) = (1..=self.logs[log].rotations)
            .rev()
            .find(|number| self.directory.join(format!("f{log}.log.{number}")).exists())
        else {
            return;
        };
        let from = self.directory.join(format!("f{log}.log.{number}"));
        fs::write(from.with_extension(format!("{number}.gz")), [0x1f, 0x8b, 8, 0, 10]).expect("a file");
        fs::remove_file(from).expect("a file");
        self.note(format!("compress {log}"));
    }

    fn start(&mut self) {
        if self.reader.is_some() {
            return;
        }
        let pattern = if self.has_copies { "f*" } else { "f*.log" };
        let rule = if self.end.starts_with('\n') { "&multiline=continue:^[+]" } else { "" };
        let spec = format!("file:{}/{pattern}?idle_close_seconds=1{rule}", self.directory.display());
        let spec = ReadSpec::parse(&spec).expect("a SPEC");
        let is_killed = Arc::new(AtomicBool::new(false));
        let storage = Arc::new(Killable(Arc::clone(&is_killed)));
        let reader = Reader::open_with(&spec, &self.catalogs, storage, self.pace).expect("a reader");
        self.reader = Some((reader, is_killed));
        self.note("start".to_owned());
    }

    fn kill(&mut self) {
        if let Some((_, is_killed)) = &self.reader {
            // What was handed over may become durable when the catalog cannot be written any more.
            is_killed.store(true, Ordering::Relaxed);
            for _ in 0..self.random.below(3) {
                self.pass();
            }
        }
        if let Some((reader, _)) = self.reader.take() {
            drop(reader);
            self.server.crash();
            self.note("kill".to_owned());
        }
    }

    fn pass(&mut self) {
        let step = self.random.below(5);
        self.now += Duration::from_millis(step);
        if let Some((reader, _)) = &mut self.reader {
            reader.unblock();
            reader.pass(&mut self.server, self.now);
        }
    }

    /// Lets the reader read everything.
    fn settle(&mut self) {
        self.start();
        if self.end.starts_with('\n') {
            // The beginning of a line may belong to the event before it.
            (0..self.logs.len()).for_each(|log| self.finish_line(log));
        }
        self.server.state().chance = None;
        for pass in 0..PASSES_MAX {
            if pass > PASSES_MAX / 4 {
                // A scan comes only after a time that depends on how long the one before took.
                self.now += Duration::from_millis(50);
            }
            self.pass();
            let lines: BTreeSet<String> = self.server.lines().into_iter().collect();
            if lines == self.expected && self.server.is_synced() {
                // Held copies, files that were left, and streams without files have their time, too.
                for _ in 0..60 {
                    self.pass();
                }
                for log in 0..self.logs.len() {
                    // An empty file has no stream yet.
                    self.logs[log].is_seen = fs::metadata(self.path(log)).is_ok_and(|file| file.len() > 0);
                }
                self.begin_chance();
                self.note("settled".to_owned());
                return;
            }
        }
        let lines: BTreeSet<String> = self.server.lines().into_iter().collect();
        let lost: Vec<&String> = self.expected.difference(&lines).collect();
        let more: Vec<&String> = lines.difference(&self.expected).collect();
        panic!("seed {}: lost {lost:?}, not written {more:?}\n{}", self.seed, self.history.join("\n"));
    }

    fn begin_chance(&mut self) {
        let seed = self.random.below(u64::MAX);
        self.server.state().chance = Some(Random(seed));
    }

    fn step(&mut self) {
        let log = self.random.below(LOGS) as usize;
        match self.random.below(40) {
            0..15 => {
                let path = self.path(log);
                self.write(log, &path);
            }
            15 => self.write_half(log),
            16..18 => self.rename(log),
            18 => self.copytruncate(log),
            19 => self.copytruncate_often(log),
            20 => self.delete(log),
            21 => self.compress(log),
            22..24 => self.kill(),
            24 => self.now += Duration::from_secs(2),
            _ => self.start(),
        }
        self.pass_some();
    }

    fn pass_some(&mut self) {
        for _ in 0..self.random.below(6) {
            self.pass();
        }
    }

    fn check(&self) {
        let state = self.server.state();
        let mut all = HashSet::new();
        for stream in state.streams.values() {
            let mut last: BTreeMap<String, u64> = BTreeMap::new();
            for line in stream.batches.iter().flat_map(|(_, lines)| lines) {
                let why = || format!("seed {}: {line:?}\n{}", self.seed, self.history.join("\n"));
                assert!(all.insert(line.clone()), "twice: {}\n{:#?}", why(), state.streams);
                let mut fields = line.split(':');
                let log = fields.next().expect("the log").to_owned();
                let number: u64 = fields.next().and_then(|number| number.parse().ok()).expect("a number");
                assert!(last.insert(log, number).is_none_or(|last| last < number), "out of order: {}", why());
            }
        }
    }
}

fn run(seed: u64) {
    // Memory is faster, and its file system is another one.
    let memory = tempfile::tempdir_in("/dev/shm").ok().filter(|_| !seed.is_multiple_of(8));
    let root = memory.unwrap_or_else(|| tempfile::tempdir().expect("a directory"));
    let mut world = World::new(seed, root.path());
    world.begin_chance();
    for _ in 0..STEPS {
        world.step();
        world.check();
    }
    (0..LOGS as usize).for_each(|log| world.finish_line(log));
    world.settle();
    world.check();
}

/// Otherwise the last lines of a pod are lost when its file is deleted while a lane is full.
#[test]
fn a_file_is_opened_when_it_comes_also_when_the_server_has_no_room() {
    let root = tempfile::tempdir().expect("a directory");
    let mut world = World::new(1, root.path());
    world.pace.poll = Duration::from_secs(3600);
    world.server.state().refuse = u32::MAX;
    let pass = |world: &mut World| {
        world.now += Duration::from_secs(1);
        let (reader, _) = world.reader.as_mut().expect("a reader");
        reader.pass(&mut world.server, world.now);
    };
    world.start();
    let (first, second) = (world.path(0), world.path(1));
    world.write(0, &first);
    (0..5).for_each(|_| pass(&mut world));
    world.write(1, &second);
    pass(&mut world);
    fs::remove_file(second).expect("a file");
    pass(&mut world);
    assert!(world.server.lines().is_empty());
    world.server.state().refuse = 0;
    world.settle();
}

/// Otherwise a kill between the two would leave records of a stream that no file is found to be.
#[test]
fn nothing_is_handed_over_before_the_catalog_has_the_file() {
    let root = tempfile::tempdir().expect("a directory");
    let mut world = World::new(1, root.path());
    world.start();
    let path = world.path(0);
    world.write(0, &path);
    let (_, is_broken) = world.reader.as_ref().expect("a reader");
    let is_broken = Arc::clone(is_broken);
    is_broken.store(true, Ordering::Relaxed);
    for _ in 0..100 {
        world.pass();
    }
    assert!(world.server.lines().is_empty());
    let view = world.reader.as_ref().expect("a reader").0.view();
    assert!(view.problem().is_some_and(|problem| problem.contains("cannot write the catalog")));
    is_broken.store(false, Ordering::Relaxed);
    world.settle();
    for _ in 0..10 {
        world.pass();
    }
    assert_eq!(view.problem(), None);
}

/// Otherwise a reader that was stuck in a file at a stop replaces the catalog of the next start.
#[test]
fn a_reader_that_was_left_behind_writes_no_catalog() {
    let root = tempfile::tempdir().expect("a directory");
    let mut world = World::new(1, root.path());
    world.start();
    let path = world.path(0);
    world.write(0, &path);
    world.server.state().is_left_behind = true;
    for _ in 0..100 {
        world.pass();
    }
    assert!(world.server.lines().is_empty());
    assert!(bbq_read::catalogued(&world.catalogs, &bbq_storage::DiskStorage).unwrap().is_empty());
}

#[test]
fn each_line_is_delivered_exactly_once_whatever_happens() {
    match std::env::var("BBQ_READ_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => run(seed),
        None => {
            let seeds = std::env::var("BBQ_READ_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
            (0..seeds.unwrap_or(SEEDS)).for_each(run);
        }
    }
}
