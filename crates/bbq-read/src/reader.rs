//! A reader: its state, its start, and its loop.
//!
//! ```text
//! outcomes -> events -> scan -> catalog -> turns of files -> poll(inotify, store, next look)
//! ```
//!
//! Invariant: one file has one turn after the other files that wait have had theirs.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bbq_rules::Filter;
use bbq_spec::RateLimitedLog;
use bbq_storage::Storage;
use bbq_wire::StreamId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::catalog::{Catalog, Entry};
use crate::catalog_file::Loaded;
use crate::error::ReadError;
use crate::files::Files;
use crate::glob::Hidden;
use crate::known::Known;
use crate::limits::{IN_HAND_BYTES_MAX, Pace, ROUND_TURNS, open_files_max};
use crate::orphans::Orphans;
use crate::spec::ReadSpec;
use crate::store::{Outcome, Settled, Store};
use crate::view::ReaderView;
use crate::watch::{Changes, FileIndex, Watcher};

/// Reads the files of one SPEC. It runs on a thread of its own.
pub struct Reader {
    pub(crate) spec: ReadSpec,
    pub(crate) pace: Pace,
    pub(crate) catalog: Catalog,
    pub(crate) known: Known,
    pub(crate) orphans: Orphans,
    pub(crate) files: Files,
    /// `None` if the system has no inotify left.
    pub(crate) watcher: Option<Watcher>,
    pub(crate) view: Arc<ReaderView>,
    /// Whether the first scan of the first start is to come.
    pub(crate) is_first: bool,
    /// Files whose stream was decided and is not in the catalog on disk.
    pub(crate) fresh: Vec<FileIndex>,
    /// Turns since the first of them.
    pub(crate) fresh_turns: u32,
    /// Whether there is no catalog on disk: with one, the next start is not the first.
    pub(crate) is_catalog_missing: bool,
    /// Whether the catalog on disk lacks something that no batch waits for.
    pub(crate) is_stale: bool,
    pub(crate) save_after: Option<Instant>,
    /// Files whose batch the store will take later.
    pub(crate) later: Vec<FileIndex>,
    /// Bytes of batches that are handed over and not in a lane.
    pub(crate) in_hand: usize,
    /// Whether the store takes nothing until it is ready.
    pub(crate) is_blocked: bool,
    pub(crate) open: usize,
    /// Files that are open at a time.
    pub(crate) open_max: usize,
    /// The pass in which no open file could be closed.
    pub(crate) all_busy_at: Option<Instant>,
    pub(crate) buffer: Vec<u8>,
    /// `None` if all lines are kept as they are.
    pub(crate) filter: Option<Filter>,
    pub(crate) scan: ScanState,
    pub(crate) problems: Problems,
}

/// When scans were and will be.
pub(crate) struct ScanState {
    pub(crate) number: u64,
    pub(crate) is_due: bool,
    /// No scan before.
    pub(crate) after: Instant,
    /// A scan then at the latest.
    pub(crate) next: Instant,
    pub(crate) next_tick: Instant,
    /// No look at files without a name that matches before.
    pub(crate) next_known: Instant,
    /// The last of those that were looked at, if there are more.
    pub(crate) known_after: Option<StreamId>,
    /// Paths that no scan could look at since the first start of the reader.
    pub(crate) hidden: Hidden,
    /// Whether a directory is on a file system without events.
    pub(crate) polls: bool,
}

/// What a person should look at, each replaced by the next of its kind.
#[derive(Default)]
pub(crate) struct Problems {
    pub(crate) catalog: Option<String>,
    pub(crate) start: Option<String>,
    pub(crate) scan: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) log: RateLimitedLog,
}

impl Reader {
    /// Opens the reader's catalog in this directory, which is created if it is missing. No file is read before [`Reader::run`].
    ///
    /// # Errors
    /// The catalog cannot be read for another reason than damage, or the directory cannot be created.
    pub fn open(spec: &ReadSpec, directory: &Path, storage: Arc<dyn Storage>) -> Result<Reader, ReadError> {
        Reader::open_with(spec, directory, storage, Pace::default())
    }

    /// As [`Reader::open`], with other intervals, for tests.
    ///
    /// # Errors
    /// As [`Reader::open`].
    #[doc(hidden)]
    pub fn open_with(
        spec: &ReadSpec,
        directory: &Path,
        storage: Arc<dyn Storage>,
        pace: Pace,
    ) -> Result<Reader, ReadError> {
        let (catalog, loaded) = Catalog::open(directory, &spec.source, storage)
            .map_err(|source| ReadError::Catalog { directory: directory.to_owned(), source })?;
        let now = Instant::now();
        let (mut problems, mut known) = (Problems::default(), Known::default());
        let is_first = loaded == Loaded::First;
        match loaded {
            Loaded::First => {}
            Loaded::Known(entries) => entries.into_iter().for_each(|entry: Entry| known.add(entry)),
            Loaded::Damaged(aside) => {
                let text = format!(
                    "the catalog of reader {} is damaged and was renamed to {}. Its files are read again from their beginning, so \
                     messages are delivered twice",
                    spec.source,
                    aside.display()
                );
                tracing::error!("{text}");
                problems.start = Some(text);
            }
        }
        let watcher = Watcher::new();
        if let Err(error) = &watcher {
            problems.start.get_or_insert(format!(
                "cannot use inotify: {error}; raise the sysctl fs.inotify.max_user_instances. New lines are found by scans alone"
            ));
        }
        Ok(Reader {
            spec: spec.clone(),
            pace,
            catalog,
            known,
            orphans: Orphans::default(),
            files: Files::default(),
            watcher: watcher.ok(),
            view: Arc::default(),
            is_first,
            fresh: Vec::new(),
            fresh_turns: 0,
            is_catalog_missing: is_first,
            is_stale: false,
            save_after: None,
            later: Vec::new(),
            in_hand: 0,
            is_blocked: false,
            open: 0,
            open_max: open_files_max(),
            all_busy_at: None,
            buffer: Vec::new(),
            filter: spec.filter.as_ref().filter(|rules| rules.acts()).map(Filter::new),
            scan: ScanState {
                number: 0,
                is_due: true,
                after: now,
                next: now,
                next_tick: now,
                next_known: now,
                known_after: None,
                hidden: Hidden::default(),
                polls: false,
            },
            problems,
        })
    }

    /// What others see of it.
    #[must_use]
    pub fn view(&self) -> Arc<ReaderView> {
        Arc::clone(&self.view)
    }

    /// Reads until the store is stopping. What is in files and not handed over by then is read after the next start.
    pub fn run(mut self, mut store: impl Store) {
        while !store.is_stopping() {
            self.pass(&mut store, Instant::now());
            self.wait(&store);
        }
        if self.is_stale {
            // A later start loses nothing without it.
            let _best_effort = self.save(&store);
        }
    }

    /// One pass of the loop, without waiting, for tests that decide about time.
    #[doc(hidden)]
    pub fn pass(&mut self, store: &mut impl Store, now: Instant) {
        while let Some(settled) = store.settled() {
            self.settle(settled, store);
        }
        self.take_events(now);
        if self.is_scan_due(now) {
            self.scan(now, store);
        }
        if now >= self.scan.next_tick {
            self.tick(now, store);
        }
        self.round(now, store);
        self.save_if_needed(now, store);
    }

    /// The store may take batches again.
    #[doc(hidden)]
    pub fn unblock(&mut self) {
        self.is_blocked = false;
        std::mem::take(&mut self.later).into_iter().for_each(|index| self.files.enqueue(index));
    }

    fn take_events(&mut self, now: Instant) {
        let mut changes = Changes::default();
        if let Some(watcher) = &mut self.watcher {
            watcher.take(&mut changes);
        }
        for index in changes.files {
            self.hold(index, now);
            self.files.enqueue(index);
        }
        self.scan.is_due |= changes.needs_scan;
    }

    fn is_scan_due(&self, now: Instant) -> bool {
        (self.scan.is_due && now >= self.scan.after) || now >= self.scan.next
    }

    /// Some turns, while the store takes batches.
    fn round(&mut self, now: Instant, store: &mut impl Store) {
        for _ in 0..ROUND_TURNS {
            if !self.takes_turns() {
                return;
            }
            let Some(index) = self.files.dequeue() else { return };
            self.fresh_turns += u32::from(!self.fresh.is_empty());
            self.turn(index, now, store);
        }
    }

    pub(crate) fn takes_turns(&self) -> bool {
        !self.is_blocked && self.in_hand < IN_HAND_BYTES_MAX
    }

    fn settle(&mut self, settled: Settled, store: &mut impl Store) {
        let Settled { stream, to, outcome } = settled;
        let Some(index) = self.files.of_stream(stream) else {
            return self.orphans.settle(settled, store);
        };
        let Some(file) = self.files.get(index) else { return };
        if outcome != Outcome::Durable && to == file.handed {
            self.in_hand -= std::mem::take(&mut file.in_hand);
        }
        match outcome {
            Outcome::Appended => {
                self.view.lose_lines(std::mem::take(&mut file.oversize));
                self.view.filter(std::mem::take(&mut file.filtered));
            }
            Outcome::Durable => file.durable = file.durable.max(to),
            Outcome::Later => {
                file.rewind();
                self.later.push(index);
                return;
            }
            Outcome::Failed => {
                self.rest(index);
                return;
            }
        }
        // There may be more, or nothing more of a file that was left.
        self.files.enqueue(index);
    }

    /// Waits for an event, an outcome, or the next look.
    fn wait(&mut self, store: &impl Store) {
        let now = Instant::now();
        let mut until = self.scan.next.min(self.scan.next_tick);
        if self.scan.is_due {
            until = until.min(self.scan.after);
        }
        if let Some(save) = self.save_after.filter(|_| !self.fresh.is_empty()) {
            until = until.min(save);
        }
        let goes_on = self.files.has_queued() && self.takes_turns();
        let timeout = if goes_on { Duration::ZERO } else { until.saturating_duration_since(now) };
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let mut ready = vec![PollFd::from_borrowed_fd(store.ready(), PollFlags::IN)];
        if let Some(watcher) = &self.watcher {
            ready.push(PollFd::from_borrowed_fd(watcher.as_fd(), PollFlags::IN));
        }
        // An interrupted or failed poll is a wake-up without a reason.
        let _woken = poll(&mut ready, Some(&timeout));
        if ready[0].revents().contains(PollFlags::IN) {
            self.unblock();
        }
    }
}
