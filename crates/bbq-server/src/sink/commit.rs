//! What a delivery does with its output and its cursor, step by step.
//!
//! ```text
//! write       Write
//! new file    Write, SyncFull, NameFull, RememberName, SetAside, RememberNew
//! commit      Sync, Remember, Follow [RememberFollowed] [from SyncFull on, where the file is of yesterday], Finish
//! trouble     GoBack
//! ```
//!
//! A write to a file and any sync that fails lead to GoBack, all other steps are repeated until they work. After each the
//! process may be killed.

use std::io::{self, ErrorKind};
use std::time::Duration;

use bbq_spool::Cursor;
use tracing::{info, warn};

use super::Account;
use super::delivery::{Delivery, OUTPUT_BYTES_TARGET, Wait, begun_of, with_begun};

/// Commit after so many bytes, so that segments go before the spool fills.
pub(super) const COMMIT_BYTES: u64 = 64 * 1024 * 1024;
/// The same after the output failed, doubled by every commit: on a disk that is nearly full a part of it gets further.
const COMMIT_BYTES_MIN: u64 = OUTPUT_BYTES_TARGET as u64;

/// First and longest pause before a failed output is tried again.
pub(super) const RETRY_PAUSE_MIN: Duration = Duration::from_millis(50);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Why a new file is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The next message finds no room.
    Full,
    /// It is of yesterday; this is a part of a commit.
    Old,
}

/// What is to be done before messages are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Nothing: they are.
    Take,
    /// The cursor gets the output's state.
    Begin,
    /// The buffer goes to the output; then the output may be full.
    Write {
        is_full: bool,
    },
    Sync,
    Remember,
    Follow,
    RememberFollowed,
    SyncFull(Due),
    NameFull(Due),
    RememberName(Due),
    SetAside(Due),
    RememberNew(Due),
    Finish,
    /// To the last commit.
    GoBack,
}

impl Delivery {
    /// Does what is to be done before messages are taken.
    pub(super) fn advance(&mut self) -> Result<(), Wait> {
        while self.task != Task::Take {
            self.task = self.work()?;
        }
        Ok(())
    }

    /// Does the task, and returns the next one.
    fn work(&mut self) -> Result<Task, Wait> {
        let now = self.now.wall;
        let is_repeated = !matches!(self.task, Task::Sync | Task::SyncFull(_));
        let done = match self.task {
            Task::Take => Ok(Task::Take),
            Task::Begin => self.begin().map(|()| Task::Take),
            Task::Write { is_full } => return self.write(is_full),
            Task::Sync => self.parts.output.commit().map(|()| Task::Remember),
            Task::Remember => self.remember().map(|()| Task::Follow),
            Task::Follow => match self.parts.output.follow(now) {
                Ok(true) => Ok(Task::RememberFollowed),
                Ok(false) => Ok(self.after_follow()),
                Err(error) => Err(error),
            },
            Task::RememberFollowed => self.remember().map(|()| self.after_follow()),
            Task::SyncFull(due) => {
                let begun = &mut self.begun[self.current];
                *begun = self.seen.max(*begun);
                self.parts.output.commit().map(|()| Task::NameFull(due))
            }
            Task::NameFull(due) => self.parts.output.begin_rotation(now).map(|()| Task::RememberName(due)),
            Task::RememberName(due) => self.remember().map(|()| Task::SetAside(due)),
            Task::SetAside(due) => self.parts.output.rotate(now).map(|()| Task::RememberNew(due)),
            Task::RememberNew(due) => self.remember().map(|()| {
                self.begin_buffer();
                if due == Due::Old { Task::Finish } else { Task::Take }
            }),
            Task::Finish => {
                self.finish_commit();
                Ok(Task::Take)
            }
            Task::GoBack => self.go_back().map(|()| Task::Take),
        };
        match done {
            Ok(next) => Ok(next),
            Err(error) if is_repeated => Err(self.again(&error)),
            Err(error) => Err(self.fail(&error)),
        }
    }

    /// Writes what has collected.
    pub(super) fn write_out(&mut self) -> Result<(), Wait> {
        self.task = Task::Write { is_full: false };
        self.advance()
    }

    /// Writes what has collected, and begins a new file.
    pub(super) fn begin_file(&mut self) -> Result<(), Wait> {
        self.task = Task::Write { is_full: true };
        self.advance()
    }

    /// Makes the output durable, and then the cursor. Everything is written.
    pub(super) fn commit(&mut self) -> Result<(), Wait> {
        self.task = Task::Sync;
        self.advance()
    }

    /// Counted behind the write: delivered never runs ahead of the output, nor what is lost ahead of the places.
    fn write(&mut self, is_full: bool) -> Result<Task, Wait> {
        if !self.buffer.is_empty()
            && let Err(error) = self.parts.output.write(&self.buffer, &mut self.written, self.now.wall)
        {
            if self.parts.output.can_go_back() {
                return Err(self.fail(&error));
            }
            if error.kind() == ErrorKind::WouldBlock {
                return Err(Wait::Blocked { is_clean: self.written == 0 && self.uncommitted_bytes == 0 });
            }
            return Err(self.again(&error));
        }
        self.uncommitted_bytes += self.buffer.len() as u64;
        self.written = 0;
        let records = std::mem::take(&mut self.records);
        self.parts.ledger.pass(&self.places, records, self.lost.drain(..));
        self.begin_buffer();
        Ok(if is_full { Task::SyncFull(Due::Full) } else { Task::Take })
    }

    /// The first commit: the cursor gets the output's state.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.parts.output.commit()?;
        self.remember()?;
        self.begin_buffer();
        self.recovered();
        self.task = Task::Take;
        Ok(())
    }

    fn after_follow(&self) -> Task {
        if self.is_old() { Task::SyncFull(Due::Old) } else { Task::Finish }
    }

    /// A commit begins a new output.
    pub(super) fn is_old(&self) -> bool {
        self.parts.output.is_old(self.now.wall)
    }

    fn finish_commit(&mut self) {
        self.begin_buffer();
        self.dirty = false;
        self.last_commit = None;
        self.commit_bytes = (self.commit_bytes * 2).min(COMMIT_BYTES);
        self.retry_pause = RETRY_PAUSE_MIN;
        self.recovered();
    }

    /// Makes the cursor say what was written, all of which is durable.
    fn remember(&mut self) -> io::Result<()> {
        let parts = &mut self.parts;
        let Account { delivered, dropped, .. } = parts.ledger.account();
        let cursor = Cursor {
            places: self.places.clone(),
            delivered,
            dropped,
            output: with_begun(&self.places, &self.begun, &parts.output.state()),
        };
        parts.store.commit(&cursor)?;
        parts.retention.commit(parts.index, cursor.places.clone());
        parts.committed = cursor;
        parts.output.committed();
        self.uncommitted_bytes = 0;
        Ok(())
    }

    /// Nothing behind the last commit can be trusted: the ledger goes back at once, the output as soon as it can be cut. The
    /// cursor on disk is that of the last commit: one that could not be written is its task's alone until it is.
    fn fail(&mut self, error: &io::Error) -> Wait {
        self.parts.ledger.go_back(&self.parts.committed);
        self.commit_bytes = COMMIT_BYTES_MIN;
        self.task = Task::GoBack;
        self.again(error)
    }

    fn go_back(&mut self) -> io::Result<()> {
        let parts = &mut self.parts;
        // First: what is cut off may have the room that the cursor needs.
        parts.output.go_back()?;
        self.places.clone_from(&parts.committed.places);
        self.begun = begun_of(&parts.committed);
        (self.seen, self.skip, self.records, self.uncommitted_bytes) = (0, 0, 0, 0);
        (self.written, self.rewinds) = (0, true);
        self.lost.clear();
        self.remember()?;
        self.begin_buffer();
        self.dirty = true;
        info!(sink = self.parts.name, "went back to the last commit; writing again what came after it");
        Ok(())
    }

    fn again(&mut self, error: &io::Error) -> Wait {
        Wait::Again(self.report(error))
    }

    /// Shows the trouble until a commit succeeds; returns for how long it is to be left alone.
    pub(super) fn report(&mut self, error: &io::Error) -> Duration {
        if self.parts.ledger.trouble().is_none() {
            warn!(sink = self.parts.name, %error, "sink failed; retrying until it works, messages stay spooled");
        }
        self.parts.ledger.set_trouble(Some(error.to_string()));
        let pause = self.retry_pause;
        self.retry_pause = (pause * 2).min(RETRY_PAUSE_MAX);
        pause
    }

    fn recovered(&self) {
        if !self.reading_fails && self.parts.ledger.trouble().is_some() {
            info!(sink = self.parts.name, "sink works again");
            self.parts.ledger.set_trouble(None);
        }
    }

    /// The spool cannot be read now: shows it, and returns for how long it is to be left alone.
    pub(super) fn reading_failed(&mut self, error: &io::Error) -> Duration {
        self.reading_fails = true;
        self.report(&io::Error::new(error.kind(), format!("cannot read the spool: {error}")))
    }

    /// The spool could be read.
    pub(super) fn reading_works(&mut self) {
        if self.reading_fails {
            self.reading_fails = false;
            // What was shown goes with the next commit.
            self.dirty = true;
            self.retry_pause = RETRY_PAUSE_MIN;
        }
    }
}
