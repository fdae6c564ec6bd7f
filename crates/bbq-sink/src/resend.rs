//! Gives the dead letters of a sink to its destination again, while the sink holds.
//!
//! ```text
//! DATA/dead-letters/SINK          the dead letters, also those that are refused again
//! DATA/dead-letters/SINK.resend   those that are being sent, with a cursor of their own: after a kill the next order goes on
//! DATA/dead-letters/SINK.sent     those that are done with, while they are deleted
//! ```
//!
//! A driver of its own reads them, so all that holds for a sink holds here. It stops at the first failure that is no refusal: until then the
//! sink's other messages wait.
//!
//! Invariant: a dead letter is deleted when the cursor has passed it, which says that the destination has it, that it is a dead letter again,
//! or that it is counted as something else; and not before.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bbq_spec::with_sources;
use bbq_spool::{Cursor, CursorStore, DirectoryLock, LaneReader, Spool, SpoolOptions, file_name_of};
use bbq_storage::Storage;
use tracing::warn;

use super::backlog::Backlog;
use super::dead_letters::{DeadLetters, segment_bytes};
use super::driver::SinkDriver;
use super::driver_parts::DriverParts;
use super::in_flight::InFlight;
use super::interface::{Now, OpenError};
use super::ledger::SinkLedger;
use super::orders::Resent;
use super::spec::SinkSpec;

/// How the names of these directories end.
const RESENT: &str = ".resend";
const DONE: &str = "sent";

/// Dead letters on their way.
pub(crate) struct Resending {
    pub driver: SinkDriver,
    ledger: Arc<SinkLedger>,
    /// Messages in all.
    records: u64,
    directory: PathBuf,
    spool: Arc<Spool>,
    storage: Arc<dyn Storage>,
    lock: DirectoryLock,
}

/// What the sink has beside them.
pub(crate) struct Resender {
    spec: SinkSpec,
    storage: Arc<dyn Storage>,
    /// The server's data directory.
    data: PathBuf,
}

impl Resender {
    pub(crate) fn new(spec: SinkSpec, spool: &Spool) -> Resender {
        Resender { spec, storage: spool.storage(), data: spool.directory().to_owned() }
    }

    /// The dead letters of a name, and those of them that are on their way.
    fn directories(&self, name: &str) -> [PathBuf; 2] {
        let directory = self.data.join("dead-letters");
        ["", RESENT].map(|end| directory.join(file_name_of(name) + end))
    }

    /// Checks that no sink of this name has left dead letters, and that this one has none on their way.
    ///
    /// # Errors
    /// Where they are.
    pub(crate) fn check_free(&self, name: &str) -> Result<(), String> {
        // Their place is kept under the present name.
        if self.directories(&self.spec.name)[1].exists() {
            return Err("first send its remaining dead letters: bbq sink resend".to_owned());
        }
        self.directories(name).iter().find(|directory| directory.exists()).map_or(Ok(()), |directory| {
            Err(format!(
                "{name} is, or was, the name of another sink, with dead letters in {}; choose another name",
                directory.display()
            ))
        })
    }

    /// Takes another name. Its dead letters stay under the old one until [`Resender::take_earlier`].
    pub(crate) fn rename(&mut self, name: &str) -> String {
        std::mem::replace(&mut self.spec.name, name.to_owned())
    }

    /// Takes the dead letters that a rename has left under one of these names, the last one first.
    ///
    /// # Errors
    /// Which stay where they are.
    pub(crate) fn take_earlier(&self, names: &[String]) -> Result<(), String> {
        let [to, _] = self.directories(&self.spec.name);
        for name in names {
            let [from, _] = self.directories(name);
            if from.exists() && to.exists() {
                let (sink, directory) = (&self.spec.name, from.display());
                warn!(
                    sink, name, %directory,
                    "the dead letters of an earlier name of the sink stay there, as the sink has other dead letters: print them with bbq \
                     spool cat, and move the directory away"
                );
            } else if from.exists() {
                self.storage.rename_durably(&from, &to).map_err(|error| {
                    format!(
                        "the dead letters of the sink's earlier name stay: {}",
                        cannot("rename", &from, &error)
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Takes the dead letters, unless there are none. `state` is what the sink remembers of its destination.
    ///
    /// # Errors
    /// Why they cannot be sent, as a text for people.
    pub(crate) fn begin(
        &self,
        state: &str,
        window_bytes: u64,
        now: Now,
    ) -> Result<Option<Resending>, String> {
        let name = &self.spec.name;
        if !self.spec.target.takes_dead_letters() {
            return Err(format!(
                "only sinks http: and otlp take dead letters again, and {name} is another kind; bbq spool cat prints them, and bbq send \
                 sends them to a listener"
            ));
        }
        let [kept, resent] = self.directories(name);
        delete(&resent.with_extension(DONE))?;
        if !resent.exists() {
            if !kept.exists() {
                return Ok(None);
            }
            self.storage.rename_durably(&kept, &resent).map_err(|error| cannot("rename", &kept, &error))?;
        }
        self.open(resent, state, window_bytes, now).map(Some)
    }

    fn open(
        &self,
        directory: PathBuf,
        state: &str,
        window_bytes: u64,
        now: Now,
    ) -> Result<Resending, String> {
        let spec = &self.spec;
        let lock = DirectoryLock::share_created(&directory).map_err(|error| with_sources(&error))?;
        let options = SpoolOptions {
            segment_bytes: segment_bytes(spec.dead_letters_bytes),
            bytes_max: spec.dead_letters_bytes,
            hot_bytes_max: 0,
            thread_name: "resent",
            ..SpoolOptions::new(directory.clone(), 1, Vec::new())
        };
        let spool = Spool::open(Arc::clone(&self.storage), &options).map_err(|error| with_sources(&error))?;
        let spool = Arc::new(spool);
        let store = CursorStore::new(spool.storage(), &spool.cursors(), &spec.name);
        let store = store.map_err(|error| with_sources(&error))?;
        let cursor = store.load().map_err(|error| with_sources(&error))?;
        let cursor = cursor.unwrap_or_else(|| Cursor { places: spool.beginnings(), ..Cursor::default() });
        let readers = spool.readers(&cursor);
        let records = readers.iter().map(LaneReader::queued).sum();
        // It counts from here.
        let places = readers.iter().map(LaneReader::place).collect();
        let committed = Cursor { places, output: cursor.output, ..Cursor::default() };
        let ledger = Arc::new(SinkLedger::of(&committed, InFlight::of(&committed).begun()));
        let sink = spec.target.open(&self.storage, Some(state), now).map_err(|error| match error {
            OpenError::NotYet(error) | OpenError::Refused(error) => error.to_string(),
        })?;
        let dead_letters =
            DeadLetters::new(&spec.name, &self.data, spec.dead_letters_bytes, Arc::clone(&spool));
        let parts = DriverParts {
            index: 0,
            name: format!("{} (dead letters)", spec.name),
            sink,
            ledger: Arc::clone(&ledger),
            store,
            retention: None,
            replica: None,
            window_bytes,
            backlog: Backlog::default(),
            committed,
            readers,
            spool: Arc::clone(&spool),
            dead_letters,
        };
        let (driver, storage) = (SinkDriver::new(parts, now), Arc::clone(&self.storage));
        Ok(Resending { driver, ledger, records, directory, spool, storage, lock })
    }
}

impl Resending {
    /// Deletes what was sent, if all was.
    ///
    /// # Errors
    /// What could not be deleted. It is not sent again.
    pub(crate) fn end(self, why_left: Option<&str>) -> Result<Resent, String> {
        let Resending { driver, ledger, records, directory, spool, storage, lock } = self;
        let (account, letters_deleted) = (ledger.account(), ledger.letters_deleted());
        let done =
            account.dropped.values().fold(account.delivered, |sum, records| sum.saturating_add(*records));
        let rest = records.saturating_sub(done);
        let problem = ledger.problem();
        drop((driver, spool, lock));
        let left = why_left.map(|why| (rest, problem.unwrap_or_else(|| why.to_owned())));
        if left.is_none() {
            // A kill in the middle of the deletion must not leave letters without their cursor.
            let done = directory.with_extension(DONE);
            storage
                .rename_durably(&directory, &done)
                .map_err(|error| cannot("rename", &directory, &error))?;
            delete(&done)?;
        }
        Ok(Resent { delivered: account.delivered, dropped: account.dropped, left, letters_deleted })
    }
}

fn delete(directory: &Path) -> Result<(), String> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cannot("delete", directory, &error)),
        _ => Ok(()),
    }
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {verb} {}: {error}", path.display())
}
