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

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bbq_spec::with_sources;
use bbq_spool::{Cursor, CursorStore, DirectoryLock, LaneReader, Spool, SpoolOptions, file_name_of};
use bbq_storage::Storage;
use tracing::{info, warn};

use super::backlog::Backlog;
use super::dead_letters::{DeadLetters, segment_bytes};
use super::driver::SinkDriver;
use super::driver_parts::DriverParts;
use super::in_flight::InFlight;
use super::interface::{Now, OpenError};
use super::ledger::{Account, SinkLedger};
use super::lenses::Lenses;
use super::orders::Resent;
use super::spec::SinkSpec;
use super::step::{Goal, SinkStep};

/// How the names of these directories end.
const RESENT: &str = ".resend";
const DONE: &str = "sent";

/// How often a sink that sends dead letters again looks whether the server has other plans.
const LOOK: Duration = Duration::from_millis(100);

/// What becomes of the thread of a sink while it sends dead letters again.
pub trait Meantime {
    /// The time of the next step.
    fn now(&self) -> Now;
    /// Whether the server has no other plans.
    fn goes_on(&self) -> bool;
    /// Waits until the driver can go on, for at most this long.
    fn wait(&mut self, driver: &mut SinkDriver, patience: Duration);
}

/// Dead letters on their way.
struct Resending {
    driver: SinkDriver,
    ledger: Arc<SinkLedger>,
    /// What an earlier order has told already: the first messages of a group.
    before: Account,
    /// Messages in all.
    records: u64,
    directory: PathBuf,
    spool: Arc<Spool>,
    storage: Arc<dyn Storage>,
    /// A simulated disk has no other processes.
    lock: Option<DirectoryLock>,
}

/// What the sink has beside them: it follows the orders that concern them.
pub struct Resender {
    spec: SinkSpec,
    storage: Arc<dyn Storage>,
    /// The server's.
    spool: Arc<Spool>,
}

impl Resender {
    pub(crate) fn new(spec: SinkSpec, spool: &Arc<Spool>) -> Resender {
        Resender { spec, storage: spool.storage(), spool: Arc::clone(spool) }
    }

    /// Gives the dead letters of a sink that holds to its destination again, until that fails or the server has other plans.
    ///
    /// # Errors
    /// Why they cannot be sent, as a text for people.
    pub fn resend(&self, driver: &mut SinkDriver, meantime: &mut impl Meantime) -> Result<Resent, String> {
        driver.release_letters().map_err(|problem| io::Error::from(problem).to_string())?;
        let (state, window_bytes) = (driver.state_of_output(), driver.window_bytes());
        let Some(resending) = self.begin(state, window_bytes, meantime.now())? else {
            return Ok(Resent::default());
        };
        let ledger = Arc::clone(&resending.ledger);
        let resent = resending.run(meantime);
        driver.add_letters_deleted(ledger.letters_deleted());
        let resent = resent?;
        let (sink, left) = (driver.name(), resent.left.as_ref().map_or(0, |(left, _)| *left));
        info!(
            sink,
            delivered = resent.delivered,
            dropped = ?resent.dropped,
            left,
            letters_deleted = resent.letters_deleted,
            "dead letters were sent again"
        );
        Ok(resent)
    }

    /// Gives a sink that holds another name, under which the next start, or a reload, finds it.
    ///
    /// # Errors
    /// Why it keeps its name, or what did not get the new one, as a text for people.
    pub fn rename(&mut self, driver: &mut SinkDriver, name: &str) -> Result<(), String> {
        driver.release_letters().map_err(|problem| io::Error::from(problem).to_string())?;
        let mut earlier = Vec::new();
        // Whoever asks again, as the answer was lost, gets it.
        if name != driver.name() {
            self.check_free(name)?;
            driver.rename(name).map_err(|error| error.to_string())?;
            // Its dead letters stay under the old one until they are taken below, or by the next start.
            let sink = std::mem::replace(&mut self.spec.name, name.to_owned());
            info!(sink, name, "sink is renamed; write the new name in the configuration");
            // Also if the marks that lead here cannot be read now.
            earlier.push(sink);
        }
        earlier.extend_from_slice(driver.earlier_names());
        let taken = self.take_earlier(&earlier);
        taken.map_err(|why| format!("the sink is renamed to {name}, but {why}"))
    }

    fn exists(&self, directory: &Path) -> bool {
        self.storage.kind(directory).is_ok()
    }

    /// The dead letters of a name, and those of them that are on their way.
    fn directories(&self, name: &str) -> [PathBuf; 2] {
        let directory = self.spool.directory().join("dead-letters");
        ["", RESENT].map(|end| directory.join(file_name_of(name) + end))
    }

    /// Checks that no sink of this name has left dead letters, and that this one has none on their way.
    ///
    /// # Errors
    /// Where they are.
    fn check_free(&self, name: &str) -> Result<(), String> {
        // Their place is kept under the present name.
        if self.exists(&self.directories(&self.spec.name)[1]) {
            return Err("first send its remaining dead letters: bbq sink resend".to_owned());
        }
        self.directories(name).iter().find(|directory| self.exists(directory)).map_or(Ok(()), |directory| {
            Err(format!(
                "{name} is, or was, the name of another sink, with dead letters in {}; choose another name",
                directory.display()
            ))
        })
    }

    /// Takes the dead letters that a rename has left under one of these names, the last one first.
    ///
    /// # Errors
    /// Which stay where they are.
    pub(crate) fn take_earlier(&self, names: &[String]) -> Result<(), String> {
        let [to, _] = self.directories(&self.spec.name);
        for name in names {
            let [from, _] = self.directories(name);
            if self.exists(&from) && self.exists(&to) {
                let (sink, directory) = (&self.spec.name, from.display());
                warn!(
                    sink, name, %directory,
                    "the dead letters of an earlier name of the sink stay there, as the sink has other dead letters: print them with bbq \
                     spool cat, and move the directory away"
                );
            } else if self.exists(&from) {
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
    fn begin(&self, state: &str, window_bytes: u64, now: Now) -> Result<Option<Resending>, String> {
        let name = &self.spec.name;
        if !self.spec.target.takes_dead_letters() {
            return Err(format!(
                "only sinks http: and otlp take dead letters again, and {name} is another kind; bbq spool cat prints them, and bbq send \
                 sends them to a listener"
            ));
        }
        let [kept, resent] = self.directories(name);
        delete(&*self.storage, &resent.with_extension(DONE))?;
        if !self.exists(&resent) {
            if !self.exists(&kept) {
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
        let has_lock = !self.spool.is_stepped();
        let lock = has_lock.then(|| DirectoryLock::share_created(&directory)).transpose();
        let lock = lock.map_err(|error| with_sources(&error))?;
        let options = SpoolOptions {
            segment_bytes: segment_bytes(spec.dead_letters_bytes),
            bytes_max: spec.dead_letters_bytes,
            hot_bytes_max: 0,
            thread_name: "resent",
            ..SpoolOptions::new(directory.clone(), 1, Vec::new())
        };
        let spool = self.spool.open_beside(&options).map_err(|error| with_sources(&error))?;
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
            DeadLetters::new(&spec.name, self.spool.directory(), spec.dead_letters_bytes, Arc::clone(&spool));
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
            // What leaves out and replaces had its turn before these were refused.
            lenses: Lenses::of_letters(spec.rules.as_ref()),
            committed,
            readers,
            spool: Arc::clone(&spool),
            dead_letters,
        };
        let (driver, storage) = (SinkDriver::new(parts, now), Arc::clone(&self.storage));
        let before = ledger.account();
        Ok(Resending { driver, ledger, before, records, directory, spool, storage, lock })
    }
}

impl Resending {
    fn run(mut self, meantime: &mut impl Meantime) -> Result<Resent, String> {
        let mut why_left = None;
        loop {
            let goal = if why_left.is_some() { Goal::Hold } else { Goal::Drain };
            match self.driver.step(meantime.now(), goal) {
                SinkStep::Progressed | SinkStep::Blocked { .. } => {}
                SinkStep::Idle(patience) => meantime.wait(&mut self.driver, patience.min(LOOK)),
                SinkStep::Drained | SinkStep::Held => break,
                SinkStep::Retry { .. } if why_left.is_some() => break,
                SinkStep::Retry { .. } => why_left = Some("the destination fails"),
            }
            if !meantime.goes_on() && why_left.is_none() {
                why_left = Some("the server stops or reloads");
            }
        }
        if why_left.is_some() {
            self.driver.commit_taken().map_err(|problem| io::Error::from(problem).to_string())?;
        }
        self.end(why_left)
    }

    /// Deletes what was sent, if all was.
    ///
    /// # Errors
    /// What could not be deleted. It is not sent again.
    fn end(self, why_left: Option<&str>) -> Result<Resent, String> {
        let Resending { driver, ledger, before, records, directory, spool, storage, lock } = self;
        let (mut account, letters_deleted) = (ledger.account(), ledger.letters_deleted());
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
            delete(&*storage, &done)?;
        }
        account.delivered = account.delivered.saturating_sub(before.delivered);
        for (reason, records) in &mut account.dropped {
            *records = records.saturating_sub(before.dropped.get(reason).copied().unwrap_or_default());
        }
        account.dropped.retain(|_, records| *records > 0);
        Ok(Resent { delivered: account.delivered, dropped: account.dropped, left, letters_deleted })
    }
}

fn delete(storage: &dyn Storage, directory: &Path) -> Result<(), String> {
    match storage.remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cannot("delete", directory, &error)),
        _ => Ok(()),
    }
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {verb} {}: {error}", path.display())
}
