//! What happens to the files and to the programs that read them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::books::Books;
use super::kind::Kind;
use super::log::{self, Disk, Log};
use super::options::FilesOptions;
use super::tool::Tool;
use crate::random::Random;

/// Each round ends with a kill of all readers, and with deleted files.
const KILLS_PER_ROUND: u64 = 5;
/// A file gets so many lines at a time at most.
const WRITE_LINES_MAX: u64 = 150;
/// How many of the files are busy: they get half of all lines.
const BUSY_FILES: u64 = 10;
/// How long a killed program stays away at most, in seconds of writing.
const AWAY_SECONDS_MAX: u64 = 1;
/// How long the script goes on at most between the last deleted file and a kill.
const KILL_WAIT_MS_MAX: u64 = 200;
/// Between two looks at the files that programs have open.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// How long bbq may take to open a file, or to read a deleted one; the other programs are not waited for as long.
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE_FOR_OTHERS: Duration = Duration::from_secs(3);
/// When nothing goes on for so long, something is stuck.
const STUCK: Duration = Duration::from_secs(30);
const OTHERS_STUCK: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
enum Event {
    KillReaders,
    KillServer,
    /// Of a file.
    Rotate(usize),
}

/// A file that is deleted once its readers have it open.
struct Leaving {
    log: usize,
    inode: u64,
    /// What is compressed and deleted; otherwise the present file is deleted.
    aside: Option<PathBuf>,
    since: Instant,
}

/// What was done.
#[derive(Default)]
pub(super) struct Done {
    pub(super) rotations: [u64; Kind::ALL.len()],
    pub(super) reader_kills: u64,
    pub(super) server_kills: u64,
    /// Kills of readers that had read everything.
    pub(super) quiet_kills: u64,
    /// Files that were deleted before a tool had them open, and kills of a tool that had not read them; for each tool.
    pub(super) unfair: Vec<u64>,
    pub(super) used_again: u64,
    /// What did not come to an end.
    pub(super) problems: Vec<String>,
}

pub(super) struct Script<'a> {
    options: &'a FilesOptions,
    logs_directory: PathBuf,
    pub(super) tools: Vec<Box<dyn Tool>>,
    pub(super) books: Books,
    pub(super) done: Done,
    disk: Disk,
    logs: Vec<Log>,
    random: Random,
    written: u64,
    leaving: VecDeque<Leaving>,
    looked: Instant,
    /// The lines at which what was killed is started again.
    readers_back: Option<u64>,
    server_back: Option<u64>,
    /// Kills that are due.
    reader_kills_due: u64,
    server_kills_due: u64,
    /// Whether a deleted file may not be read to its end.
    has_left: bool,
    /// Whether nothing more is written in this round.
    is_draining: bool,
    /// The lines at which the next kill of the readers comes.
    reader_kill_at: Option<u64>,
}

impl<'a> Script<'a> {
    pub(super) fn new(
        options: &'a FilesOptions,
        logs_directory: &Path,
        tools: Vec<Box<dyn Tool>>,
        random: Random,
    ) -> Result<Script<'a>> {
        let (mut books, mut disk) = (Books::new(tools.len()), Disk::default());
        let logs = (0..options.files)
            .map(|number| Log::new(logs_directory, number, &mut books, &mut disk))
            .collect::<Result<_>>()?;
        Ok(Script {
            options,
            logs_directory: logs_directory.to_owned(),
            done: Done { unfair: vec![0; tools.len()], ..Done::default() },
            tools,
            books,
            disk,
            logs,
            random,
            written: 0,
            leaving: VecDeque::new(),
            looked: Instant::now(),
            readers_back: None,
            server_back: None,
            reader_kills_due: 0,
            server_kills_due: 0,
            has_left: false,
            is_draining: false,
            reader_kill_at: None,
        })
    }

    pub(super) fn run(&mut self) -> Result<()> {
        self.tools.iter_mut().try_for_each(|tool| tool.start())?;
        let rounds = self.options.kills.div_ceil(KILLS_PER_ROUND).max(1);
        let share = |of: u64, round: u64| of * round / rounds - of * (round - 1) / rounds;
        for round in 1..=rounds {
            let options = self.options;
            let lines = share(options.lines, round);
            let plan = self.plan(lines, share(options.kills, round), share(options.rotations, round));
            self.write_round(lines, plan).with_context(|| format!("in round {round}"))?;
            self.drain().with_context(|| format!("in round {round}"))?;
            self.wait_quiet(round);
            if round < rounds {
                self.use_inodes_again()?;
            }
            println!("files: round {round} of {rounds}: {} lines so far", self.written);
        }
        self.done.used_again = self.disk.used_again;
        let stopped = self.tools.iter_mut().map(|tool| tool.stop().with_context(|| tool.name().to_owned()));
        let stopped: Vec<Result<()>> = stopped.collect();
        stopped.into_iter().collect::<Result<Vec<()>>>()?;
        for (index, tool) in self.tools.iter_mut().enumerate() {
            let books = &mut self.books;
            tool.read(&mut |line| books.see(index, line)).with_context(|| tool.name().to_owned())?;
            books.judge(index);
        }
        Ok(())
    }

    /// What happens in a round, by the lines before it.
    fn plan(&mut self, lines: u64, kills: u64, rotations: u64) -> VecDeque<(u64, Event)> {
        let random = &mut self.random;
        let mut at = |event: Event| (self.written + random.below(lines.max(1)), event);
        let mut plan: Vec<(u64, Event)> = Vec::new();
        for _ in 0..kills {
            plan.extend([at(Event::KillReaders), at(Event::KillServer)]);
        }
        for kind in Kind::ALL {
            let files: Vec<usize> = (0..self.logs.len()).filter(|log| self.logs[*log].kind == kind).collect();
            for _ in 0..rotations {
                let log = *self.random.one_of(&files);
                plan.push((self.written + self.random.below(lines.max(1)), Event::Rotate(log)));
            }
        }
        plan.sort_by_key(|(lines, _)| *lines);
        plan.into()
    }

    fn write_round(&mut self, lines: u64, mut plan: VecDeque<(u64, Event)>) -> Result<()> {
        let (begin, first) = (Instant::now(), self.written);
        while self.written < first + lines {
            while let Some((_, event)) = plan.pop_front_if(|(at, _)| *at <= self.written) {
                self.begin(event)?;
            }
            self.look()?;
            let few = if self.random.percent(50) { BUSY_FILES } else { u64::MAX };
            let log = self.random.below(few.min(self.logs.len() as u64)) as usize;
            let more = (1 + self.random.below(WRITE_LINES_MAX)).min(first + lines - self.written);
            self.logs[log].write(more, &mut self.books, &mut self.random)?;
            self.written += more;
            let due =
                Duration::from_secs_f64((self.written - first) as f64 / self.options.lines_per_second as f64);
            thread::sleep(due.saturating_sub(begin.elapsed()));
        }
        plan.into_iter().try_for_each(|(_, event)| self.begin(event))
    }

    /// Ends what the script has begun.
    fn drain(&mut self) -> Result<()> {
        self.logs.iter_mut().try_for_each(Log::complete)?;
        let back = Some(self.written);
        self.is_draining = true;
        loop {
            (self.readers_back, self.server_back) = (self.readers_back.and(back), self.server_back.and(back));
            self.look()?;
            let is_up = self.readers_back.is_none() && self.server_back.is_none();
            if is_up && self.leaving.is_empty() && self.reader_kills_due + self.server_kills_due == 0 {
                self.is_draining = false;
                return Ok(());
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    fn begin(&mut self, event: Event) -> Result<()> {
        let log = match event {
            Event::KillReaders => {
                self.reader_kills_due += 1;
                return Ok(());
            }
            Event::KillServer => {
                self.server_kills_due += 1;
                return Ok(());
            }
            Event::Rotate(log) => log,
        };
        let (index, log) = (log, &mut self.logs[log]);
        let (books, random) = (&mut self.books, &mut self.random);
        let since = Instant::now();
        match log.kind {
            Kind::Rename => drop(log.rename(books, &mut self.disk, random)?),
            Kind::CopyTruncate => log.copy_and_truncate(books, random)?,
            Kind::Compress => {
                let (aside, inode) = log.rename(books, &mut self.disk, random)?;
                self.leaving.push_back(Leaving { log: index, inode, aside: Some(aside), since });
                return Ok(());
            }
            Kind::Delete => {
                let inode = log.inode()?;
                self.leaving.push_back(Leaving { log: index, inode, aside: None, since });
                return Ok(());
            }
        }
        self.done.rotations[log.kind as usize] += 1;
        Ok(())
    }

    /// Does what is due and possible.
    fn look(&mut self) -> Result<()> {
        if self.looked.elapsed() < LOOK_INTERVAL {
            return Ok(());
        }
        self.looked = Instant::now();
        if self.readers_back.is_some_and(|at| at <= self.written) {
            self.readers_back = None;
            self.tools.iter_mut().try_for_each(|tool| tool.start())?;
        }
        if self.server_back.is_some_and(|at| at <= self.written) {
            self.server_back = None;
            self.tools.iter_mut().try_for_each(|tool| tool.starts_server())?;
        }
        if self.server_kills_due > 0 && self.server_back.is_none() {
            self.server_kills_due -= 1;
            self.tools.iter_mut().try_for_each(|tool| tool.kill_server())?;
            self.done.server_kills += 1;
            self.server_back = Some(self.draw_back());
        }
        if self.readers_back.is_some() {
            return Ok(());
        }
        if self.reader_kills_due > 0 { self.kill_readers() } else { self.leave() }
    }

    fn draw_back(&mut self) -> u64 {
        self.written + self.random.below(AWAY_SECONDS_MAX * self.options.lines_per_second)
    }

    /// Kills all readers. Before that, deleted files are read to their end; then the script goes on for a moment.
    fn kill_readers(&mut self) -> Result<()> {
        if self.has_left {
            self.wait_for_deleted_files()?;
            self.has_left = false;
        }
        let wait_lines = self.options.lines_per_second * KILL_WAIT_MS_MAX / 1000 + 1;
        let at = *self.reader_kill_at.get_or_insert_with(|| self.written + self.random.below(wait_lines));
        if self.written < at && !self.is_draining {
            return Ok(());
        }
        self.reader_kill_at = None;
        self.reader_kills_due -= 1;
        self.tools.iter_mut().try_for_each(|tool| tool.kill_reader())?;
        self.done.reader_kills += 1;
        self.readers_back = Some(self.draw_back());
        Ok(())
    }

    /// Waits until no reader has anything to read in a deleted file.
    fn wait_for_deleted_files(&mut self) -> Result<()> {
        self.logs.iter_mut().try_for_each(Log::complete)?;
        let (lines, since) = (self.books.certain_lines(), Instant::now());
        loop {
            let below = &self.logs_directory;
            let busy: Vec<bool> =
                self.tools.iter().map(|tool| !tool.has_read_deleted(lines, below)).collect();
            if self.may_go_on(&busy, since, "does not read a deleted file to its end")? {
                return Ok(());
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Deletes files that all readers have open.
    fn leave(&mut self) -> Result<()> {
        if self.leaving.is_empty() {
            return Ok(());
        }
        let held: Vec<Vec<u64>> = self
            .tools
            .iter()
            .map(|tool| tool.held(&self.logs_directory).iter().map(|held| held.inode).collect())
            .collect();
        for _ in 0..self.leaving.len() {
            let Some(mut leaving) = self.leaving.pop_front() else { break };
            if leaving.aside.is_none() {
                leaving.inode = self.logs[leaving.log].inode()?;
            }
            let lacks: Vec<bool> = held.iter().map(|held| !held.contains(&leaving.inode)).collect();
            if !self.may_go_on(&lacks, leaving.since, "does not open a file")? {
                self.leaving.push_back(leaving);
                continue;
            }
            let log = &mut self.logs[leaving.log];
            match &leaving.aside {
                Some(aside) => log::compress(aside)?,
                None => log.delete(&mut self.books, &mut self.disk)?,
            }
            self.has_left = true;
            self.done.rotations[log.kind as usize] += 1;
        }
        Ok(())
    }

    /// Whether no tool is in the way any more. Only bbq, the first, is waited for in any case.
    fn may_go_on(&mut self, in_the_way: &[bool], since: Instant, why: &str) -> Result<bool> {
        let waited = since.elapsed();
        if in_the_way[0] && waited > PATIENCE {
            bail!("bbq {why} for {} s: {}", PATIENCE.as_secs(), self.tools[0].state());
        }
        if in_the_way[0] || (in_the_way.contains(&true) && waited < PATIENCE_FOR_OTHERS) {
            return Ok(false);
        }
        self.done.unfair.iter_mut().zip(in_the_way).for_each(|(unfair, is)| *unfair += u64::from(*is));
        Ok(true)
    }

    /// Waits until everything has come to the end, for as long as it goes on.
    fn wait_quiet(&mut self, round: u64) {
        let lines = self.books.certain_lines();
        for (index, tool) in self.tools.iter_mut().enumerate() {
            let patience = if index == 0 { STUCK } else { OTHERS_STUCK };
            let (mut state, mut since) = (String::new(), Instant::now());
            while !tool.is_quiet(lines).unwrap_or(false) {
                let present = tool.state();
                if present != state {
                    (state, since) = (present, Instant::now());
                } else if since.elapsed() > patience {
                    self.done.problems.push(format!(
                        "{}, round {round}: it does not read its files to their end: {state}",
                        tool.name()
                    ));
                    break;
                }
                thread::sleep(LOOK_INTERVAL);
            }
        }
    }

    /// Kills the readers, deletes what was read, and writes new files before they start.
    fn use_inodes_again(&mut self) -> Result<()> {
        self.tools.iter_mut().try_for_each(|tool| tool.kill_reader())?;
        self.done.quiet_kills += 1;
        for kind in Kind::ALL {
            log::delete_set_aside(&self.logs_directory.join(kind.name()))?;
        }
        for log in self.logs.iter_mut().filter(|log| log.kind == Kind::Delete) {
            log.delete(&mut self.books, &mut self.disk)?;
            log.write(1 + self.random.below(WRITE_LINES_MAX), &mut self.books, &mut self.random)?;
            self.done.rotations[log.kind as usize] += 1;
        }
        self.tools.iter_mut().try_for_each(|tool| tool.start())
    }
}
