//! Sinks: each reads all lanes on its own thread, at its own pace, and remembers how far it is.
//!
//! The thread formats group after group into a buffer, writes the buffer, and from time to time makes the output durable
//! and then the cursor, in this order: the cursor never says more than the output holds. A failing output is retried for as
//! long as the server runs; nothing else waits for it, until the spool is full.

mod file;
mod format;
mod ledger;
mod stdout;
mod writing;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bbq_spool::{Cursor, CursorStore, GroupRead, LaneReader, LostReason, Progress, Spool};
use tracing::{info, warn};

use crate::config::{SinkSpec, SinkTarget};
use crate::retention::Retention;
use crate::stop::Stop;
use file::FileOutput;
use stdout::StdoutOutput;
use writing::{Interrupted, Writing};

pub(crate) use ledger::{OLDEST, SinkLedger};

/// At the latest so long after a write the output is made durable and the cursor with it: what a crash makes a sink write
/// again (and a file sink take back first).
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);
/// Nothing more to read for so long: commit now, so that a quiet server has nothing to repeat.
const IDLE_COMMIT: Duration = Duration::from_millis(50);
/// Commit after so many bytes, so that segments go before the spool fills.
const COMMIT_BYTES: u64 = 64 * 1024 * 1024;
/// First and longest pause before a failed output is tried again.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(50);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Why a sink did not get messages that came before it was configured.
const BEFORE: &str = "before-sink";

/// Where formatted messages go.
pub(crate) trait Output: Send {
    /// Where the next byte goes: for a buffer that may be written as it lies in memory.
    fn position(&self) -> u64 {
        0
    }
    /// Takes all of `bytes`, or none of them.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything taken durable, and answers what to remember of it.
    fn commit(&mut self) -> io::Result<String>;
    /// What to remember before the output is set aside for a new one, when it is time for that.
    fn rotation_due(&mut self) -> Option<String>;
    /// Sets it aside; what was remembered by [`Output::rotation_due`] is durable by now.
    fn rotate(&mut self) -> io::Result<()>;
}

/// Why a sink could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SinkError {
    #[error(transparent)]
    Cursor(#[from] bbq_spool::SpoolError),
    #[error("cannot open its output: {0}")]
    Output(#[from] io::Error),
}

/// A sink's thread, until it has drained.
pub(crate) struct SinkDriver {
    index: usize,
    ledger: Arc<SinkLedger>,
    writing: Writing,
    readers: Vec<LaneReader>,
    store: CursorStore,
    retention: Arc<Retention>,
    progress: Arc<Progress>,
    stop: Arc<Stop>,
    last_commit: Instant,
    /// When there was something to read.
    last_moved: Instant,
    dirty: bool,
}

/// A sink that was never here begins with the oldest message that is kept. Those before it, which other sinks had, it does
/// not get: they count as dropped, so that its ledger balances.
fn first_cursor(spool: &Spool) -> Cursor {
    let places = spool.beginnings();
    let before: u64 = places.iter().map(|place| place.record).sum();
    let dropped = if before > 0 { BTreeMap::from([(BEFORE.to_owned(), before)]) } else { BTreeMap::new() };
    Cursor { places, dropped, ..Cursor::default() }
}

impl SinkDriver {
    /// Opens output and cursor, and makes them agree: what the output holds beyond the cursor is taken back.
    pub(crate) fn open(
        index: usize,
        spec: &SinkSpec,
        spool: &Arc<Spool>,
        retention: Arc<Retention>,
        stop: Arc<Stop>,
    ) -> Result<SinkDriver, SinkError> {
        let store = CursorStore::new(spool.storage(), &spool.cursors(), &spec.name)?;
        let cursor = store.load()?;
        let state = cursor.as_ref().map(|cursor| cursor.output.as_str());
        let output: Box<dyn Output> = match &spec.target {
            SinkTarget::File(path) => Box::new(FileOutput::open(path, spec.rotation, state)?),
            SinkTarget::Stdout => Box::new(StdoutOutput),
        };
        let cursor = cursor.unwrap_or_else(|| first_cursor(spool));
        let ledger = Arc::new(SinkLedger::of(&cursor));
        let mut driver = SinkDriver {
            index,
            writing: Writing::new(spec, output, Arc::clone(&ledger), Arc::clone(&stop)),
            ledger,
            readers: spool.readers(&cursor),
            store,
            retention,
            progress: spool.progress(),
            stop,
            last_commit: Instant::now(),
            last_moved: Instant::now(),
            dirty: true,
        };
        // The output's length must be known before the first byte is written to it. A full disk is waited for by `run`.
        match driver.commit() {
            Err(error) if is_full(&error) => driver.writing.report(&error, true),
            committed => committed?,
        }
        Ok(driver)
    }

    pub(crate) fn ledger(&self) -> Arc<SinkLedger> {
        Arc::clone(&self.ledger)
    }

    /// Works until it is told to drain and has, or to give up.
    pub(crate) fn run(mut self) {
        if self.ledger.trouble().is_some() && self.commit_or_retry().is_err() {
            return;
        }
        loop {
            let seen = self.progress.generation();
            // Asked before reading: what the lanes wrote last may come between a read and this.
            let draining = self.stop.is_draining();
            let moved = match self.turn() {
                Ok(moved) => moved,
                Err(Interrupted) => return,
            };
            if moved {
                self.last_moved = Instant::now();
            }
            if self.is_commit_due() && self.commit_or_retry().is_err() {
                return;
            }
            if !moved {
                if draining {
                    if self.commit_or_retry().is_ok() {
                        info!(
                            sink = self.writing.name(),
                            delivered = self.ledger.delivered(),
                            "sink drained"
                        );
                    }
                    return;
                }
                self.retention.retire();
                let patience = if self.dirty { IDLE_COMMIT } else { COMMIT_INTERVAL };
                self.progress.wait(seen, patience);
            }
            if self.stop.is_leaving() {
                // Without it, what was read since the last commit would be read again.
                let _until_patience_is_over = self.commit_or_retry();
                return;
            }
            if self.stop.is_over() {
                // The cursor of the last commit stands; the next start goes on from there.
                return;
            }
        }
    }

    fn is_commit_due(&self) -> bool {
        self.dirty
            && (self.writing.uncommitted_bytes() >= COMMIT_BYTES
                || self.last_commit.elapsed() >= COMMIT_INTERVAL
                || self.last_moved.elapsed() >= IDLE_COMMIT)
    }

    /// One group of each lane; answers whether there was any.
    fn turn(&mut self) -> Result<bool, Interrupted> {
        let mut moved = false;
        for index in 0..self.readers.len() {
            moved |= self.turn_of(index)?;
        }
        self.writing.write_out()?;
        self.ledger.set_places(self.readers.iter().map(LaneReader::place));
        Ok(moved)
    }

    fn turn_of(&mut self, index: usize) -> Result<bool, Interrupted> {
        let mut received_ns = 0;
        let mut interrupted = false;
        let (readers, writing) = (&mut self.readers, &mut self.writing);
        let read = readers[index].read(&mut |entry| {
            received_ns = entry.envelope.received_ns;
            interrupted = interrupted || writing.take(entry).is_err();
        });
        if interrupted {
            // In the middle of a group: only the last commit may stand.
            return Err(Interrupted);
        }
        match read {
            Ok(GroupRead::CaughtUp) => return Ok(false),
            Ok(GroupRead::Group { records, lost }) => {
                self.writing.add_records(records);
                self.ledger.set_last_received_ns(received_ns);
                self.ledger.add_dropped(LostReason::Damaged, lost);
            }
            Ok(GroupRead::Lost(lost)) => {
                if lost.records > 0 {
                    warn!(sink = self.writing.name(), records = lost.records, reason = ?lost.reason, "messages will not be delivered");
                }
                self.ledger.add_dropped(lost.reason, lost.records);
            }
            Err(error) => {
                self.ledger.set_trouble(Some(format!("cannot read the spool: {error}")));
                return self.writing.pause(RETRY_PAUSE_MIN).map(|()| true);
            }
        }
        self.dirty = true;
        Ok(true)
    }

    fn commit_or_retry(&mut self) -> Result<(), Interrupted> {
        let mut pause = RETRY_PAUSE_MIN;
        while let Err(error) = self.commit() {
            self.writing.report(&error, pause == RETRY_PAUSE_MIN);
            self.writing.pause(pause)?;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
        self.writing.recovered();
        Ok(())
    }

    /// Output first, then the cursor. The buffer is empty here.
    fn commit(&mut self) -> io::Result<()> {
        let state = self.writing.commit()?;
        self.remember(state)?;
        if let Some(state) = self.writing.output().rotation_due() {
            self.remember(state)?;
            self.writing.output().rotate()?;
            let state = self.writing.commit()?;
            self.remember(state)?;
        }
        self.dirty = false;
        self.last_commit = Instant::now();
        Ok(())
    }

    fn remember(&self, output: String) -> io::Result<()> {
        let places: Vec<_> = self.readers.iter().map(LaneReader::place).collect();
        let cursor = Cursor {
            places: places.clone(),
            delivered: self.ledger.delivered(),
            dropped: self.ledger.dropped(),
            output,
        };
        self.store.commit(&cursor)?;
        self.retention.commit(self.index, places);
        Ok(())
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
