//! A reader of a journal: its state, its start, and its loop.
//!
//! ```text
//! outcomes -> journalctl (start, end, errors) -> bytes -> entries -> batches -> catalog -> poll(store, journalctl, next look)
//! ```
//!
//! Invariant: nothing is read from the pipe while a batch waits for its lane, so journalctl waits, too.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bbq_rules::Filter;
use bbq_spec::RateLimitedLog;
use bbq_storage::Storage;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::beginning::{boot_id, first_contents};
use super::catalog::{Catalog, Contents};
use super::child::Child;
use super::cursor::{Cursor, Place};
use super::export::{Entry, Parser};
use super::gaps::Gaps;
use super::progress::Progress;
use super::rules::{JournalRules, Start};
use super::streams::Streams;
use crate::catalog_file::Loaded;
use crate::error::ReadError;
use crate::limits::{IN_HAND_BYTES_MAX, Pace};
use crate::store::{Outcome, Settled, Store};
use crate::view::ReaderView;

/// Bytes that are read from the pipe at a time: as much as a pipe holds.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

/// Reads a journal. It runs on a thread of its own.
pub(crate) struct JournalReader {
    pub(super) name: String,
    pub(super) rules: JournalRules,
    pub(super) pace: Pace,
    pub(super) line_bytes_max: usize,
    /// What is left out and replaced; `None` if all is kept as it is.
    pub(super) filter: Option<Filter>,
    /// journalctl.
    pub(super) program: PathBuf,
    /// The machine whose entries are wanted; `None` for all.
    pub(super) machine: Option<String>,
    pub(super) catalog: Catalog,
    /// What the catalog says beside the streams. `ids` is only used until the store is there.
    pub(super) contents: Contents,
    pub(super) streams: Streams,
    pub(super) view: Arc<ReaderView>,
    pub(super) child: Option<Child>,
    pub(super) run: Run,
    pub(super) progress: Progress,
    pub(super) gaps: Gaps,
    pub(super) parser: Parser,
    pub(super) entry: Entry,
    pub(super) buffer: Box<[u8]>,
    /// What of the buffer is not parsed.
    pub(super) unparsed: std::ops::Range<usize>,
    /// The cursor of the entry, if it is complete and not taken yet.
    pub(super) waiting: Option<Cursor>,
    /// This boot, if the catalog is of an earlier one.
    pub(super) new_boot: Option<u128>,
    /// Bytes of batches that are handed over and not in a lane.
    pub(super) in_hand: usize,
    /// Whether the store takes nothing until it is ready.
    pub(super) is_blocked: bool,
    /// Whether the catalog on disk lacks something.
    pub(super) is_stale: bool,
    pub(super) save_after: Option<Instant>,
    pub(super) next_tick: Instant,
    pub(super) problems: Problems,
}

/// A run of journalctl, and when the next one begins.
pub(super) struct Run {
    /// When the next one may begin.
    pub(super) after: Instant,
    /// The wait before the one after that.
    pub(super) wait: Duration,
    pub(super) began: Instant,
    /// Whether it has shown an entry.
    pub(super) has_read: bool,
    /// Where the next one begins, if that does not follow from the progress.
    pub(super) forced: Option<Place>,
    /// The entry at which it began, if that is to be checked.
    pub(super) expected: Option<Place>,
    /// Whether the next one is not for a failure of this one.
    pub(super) is_planned: bool,
}

/// What a person should look at, each replaced by the next of its kind.
#[derive(Default)]
pub(super) struct Problems {
    pub(super) catalog: Option<String>,
    pub(super) start: Option<String>,
    pub(super) rights: Option<String>,
    pub(super) run: Option<String>,
    pub(super) log: RateLimitedLog,
}

impl JournalReader {
    /// Opens the reader's catalog in this directory, for messages up to a length. Nothing is read before [`JournalReader::run`].
    ///
    /// # Errors
    /// The catalog cannot be read or created, or there is no journalctl.
    pub(crate) fn open(
        (name, rules): (&str, &JournalRules),
        (line_bytes_max, filter): (usize, Option<Filter>),
        directory: &Path,
        storage: Arc<dyn Storage>,
        pace: Pace,
    ) -> Result<JournalReader, ReadError> {
        let program =
            rules.find_program().ok_or_else(|| ReadError::NoJournalctl { program: rules.program.clone() })?;
        let (catalog, loaded) = Catalog::open(directory, name, storage)
            .map_err(|source| ReadError::Catalog { directory: directory.to_owned(), source })?;
        let now = Instant::now();
        let mut problems = Problems::default();
        let is_stale = !matches!(loaded, Loaded::Known(_));
        let contents = match loaded {
            Loaded::Known(contents) => contents,
            Loaded::First => first_contents(rules.start)?,
            Loaded::Damaged(aside) => {
                let text = format!(
                    "the catalog of reader {name} is damaged and was renamed to {}. The journal is read again from its beginning, so \
                     messages are delivered twice",
                    aside.display()
                );
                tracing::error!("{text}");
                problems.start = Some(text);
                first_contents(Start::Beginning)?
            }
        };
        let new_boot = Some(boot_id()).filter(|boot| *boot != contents.boot_id && *boot != 0);
        let mut progress = Progress::default();
        progress.begin_run(contents.place);
        Ok(JournalReader {
            name: name.to_owned(),
            rules: rules.clone(),
            pace,
            line_bytes_max,
            filter,
            program,
            machine: rules.machine(),
            catalog,
            contents,
            streams: Streams::new(),
            view: Arc::default(),
            child: None,
            run: Run {
                after: now,
                wait: pace.restart,
                began: now,
                has_read: false,
                forced: None,
                expected: None,
                is_planned: true,
            },
            progress,
            gaps: Gaps::new(now),
            parser: Parser::new(Arc::clone(&rules.fields), line_bytes_max),
            entry: Entry::default(),
            buffer: vec![0; PIECE_BYTES].into_boxed_slice(),
            unparsed: 0..0,
            waiting: None,
            new_boot,
            in_hand: 0,
            is_blocked: false,
            is_stale,
            save_after: None,
            next_tick: now,
            problems,
        })
    }

    pub(crate) fn view(&self) -> Arc<ReaderView> {
        Arc::clone(&self.view)
    }

    /// Reads until the store is stopping. What was not handed over by then is read after the next start.
    pub(crate) fn run(mut self, mut store: impl Store) {
        self.recall(&mut store);
        while !store.is_stopping() {
            let now = Instant::now();
            while let Some(settled) = store.settled() {
                self.settle(settled);
            }
            self.look_after_child(now, &mut store);
            self.read(now, &mut store);
            self.save_if_needed(now, &store);
            self.hand_over(&mut store);
            if now >= self.next_tick {
                self.tick(now);
            }
            self.wait(now, &store);
        }
        self.child = None;
        if self.is_stale {
            // A later start reads more again without it.
            let _best_effort = self.save(&store);
        }
    }

    fn settle(&mut self, Settled { stream: id, to, outcome }: Settled) {
        if outcome == Outcome::Durable {
            self.progress.durable(id, to);
            self.is_stale = true;
        }
        // Another generation may have taken the place of the stream.
        let Some(stream) = self.streams.values_mut().find(|stream| stream.stream == id) else { return };
        if outcome == Outcome::Durable {
            return;
        }
        let Some(in_hand) = stream.in_hand.take_if(|in_hand| in_hand.to == to) else {
            if outcome == Outcome::Failed {
                self.rest(id);
            }
            return;
        };
        self.in_hand -= in_hand.bytes;
        match outcome {
            Outcome::Appended | Outcome::Durable => {
                in_hand.left_out.count(&self.view);
            }
            Outcome::Later => {
                // journalctl has the entries: no memory is kept for them.
                let place = self.progress.place();
                stream.rewind(in_hand.from);
                self.progress.forget_behind(id, in_hand.from);
                self.begin_again(place);
            }
            Outcome::Failed => self.rest(id),
        }
    }

    /// A lane failed: nothing more of the id is read until the server starts again.
    fn rest(&mut self, id: bbq_wire::StreamId) {
        let Some(stream) = self.streams.values_mut().find(|stream| stream.stream == id) else { return };
        if !std::mem::replace(&mut stream.is_resting, true) {
            let name = &self.name;
            stream.rewind(stream.handed);
            self.view.resting.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                "reader {name}: entries with the sequence number id {:032x} are not read until the server starts again, as their lane failed",
                stream.known.seqnum_id
            );
        }
    }

    /// What the status shows, and what is tried again.
    fn tick(&mut self, now: Instant) {
        self.next_tick = now + self.pace.poll;
        // In case that there was room before the reader knew that there had been none.
        self.is_blocked = false;
        if self.child.is_some() && now >= self.run.began + self.pace.retry {
            self.problems.run = None;
        }
        self.view.open.store(u64::from(self.child.is_some()), Ordering::Relaxed);
        let Problems { catalog, start, rights, run, .. } = &self.problems;
        let problem = [catalog, start, rights, run].into_iter().find_map(Clone::clone);
        self.view.set_problem(problem);
    }

    /// Whether another entry may be taken.
    pub(super) fn has_room(&self) -> bool {
        if self.waiting.is_some_and(|cursor| self.must_wait(&cursor)) {
            return false;
        }
        let held: usize = self.streams.values().map(|stream| stream.batch_bytes()).sum();
        self.in_hand + held < IN_HAND_BYTES_MAX && self.streams.values().all(|stream| !stream.is_full())
    }

    /// Waits for the store, for journalctl, or the next look.
    fn wait(&mut self, now: Instant, store: &impl Store) {
        let mut until = self.next_tick;
        if self.child.is_none() {
            until = until.min(self.run.after);
        }
        let has_room = self.has_room();
        let goes_on = has_room && (self.waiting.is_some() || !self.unparsed.is_empty());
        let timeout = if goes_on { Duration::ZERO } else { until.saturating_duration_since(now) };
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let mut ready = vec![PollFd::from_borrowed_fd(store.ready(), PollFlags::IN)];
        if let Some(child) = &self.child {
            if has_room {
                ready.push(PollFd::from_borrowed_fd(child.output(), PollFlags::IN));
            }
            if !child.is_error_closed {
                ready.push(PollFd::from_borrowed_fd(child.error(), PollFlags::IN));
            }
        }
        // An interrupted or failed poll is a wake-up without a reason.
        let _woken = poll(&mut ready, Some(&timeout));
        if ready[0].revents().contains(PollFlags::IN) {
            self.is_blocked = false;
        }
    }
}
