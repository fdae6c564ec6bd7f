//! Where formatted messages go.

use std::io::{self, ErrorKind};
use std::path::Path;

use bbq_sink::OpenError;
use bbq_storage::StorageFile;
use chrono::{DateTime, Utc};

/// Where formatted messages go.
///
/// A commit is [`Output::commit`], then a cursor with [`Output::state`] in it, then [`Output::committed`]. Each `now` is the time
/// of the wall clock.
pub(super) trait Output: Send {
    /// The position of the next byte in the file: the buffer is aligned to it. 0 if the file is empty.
    fn position(&self) -> u64 {
        0
    }

    /// Bytes that may still be written before a new file is due.
    fn room(&self) -> u64 {
        u64::MAX
    }

    /// Takes the `bytes` from `taken` on, and advances `taken` past the bytes that it took. Returns `WouldBlock` when there is no
    /// room at the moment. After any error the caller passes the same bytes again.
    fn write(&mut self, bytes: &[u8], taken: &mut usize, now: DateTime<Utc>) -> io::Result<()>;

    /// Makes everything taken durable. After an error nothing behind the last commit can be trusted.
    fn commit(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// What to remember in the cursor: one line.
    fn state(&self) -> String {
        String::new()
    }

    /// The cursor has the state of the last [`Output::commit`].
    fn committed(&mut self) {}

    /// Whether the path leads to another file by now: then nothing more belongs in this one, which may be about to be compressed or
    /// deleted. The next commit goes on with the file at the path ([`Output::follow`]).
    fn has_moved(&self) -> bool {
        false
    }

    /// How often another program cut the output short, since it was opened.
    fn truncations(&self) -> u64 {
        0
    }

    /// Notices what others did to the output. Returns `true` if there is a new state, to be remembered before anything is
    /// written.
    fn follow(&mut self, now: DateTime<Utc>) -> io::Result<bool> {
        let _unused = now;
        Ok(false)
    }

    /// Whether written bytes can be taken back. If not, a write that failed goes on where it stopped.
    fn can_roll_back(&self) -> bool {
        false
    }

    /// Takes back what was written since the last commit, durably, if possible; all of it is written again. Then the state must
    /// be remembered. Never called between [`Output::begin_rotation`] and the end of [`Output::rotate`].
    fn roll_back(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Whether a new file is due because of the age of this one.
    fn is_old(&self, now: DateTime<Utc>) -> bool {
        let _unused = now;
        false
    }

    /// Chooses the name under which the file is set aside. The state has this name, and must be remembered before the rename.
    fn begin_rotation(&mut self, now: DateTime<Utc>) -> io::Result<()> {
        let _unused = now;
        Ok(())
    }

    /// Sets the file aside and begins a new one, whose state must be remembered before anything is written. After an error the
    /// caller calls this again.
    fn rotate(&mut self, now: DateTime<Utc>) -> io::Result<()> {
        let _unused = now;
        Ok(())
    }
}

/// Classifies an error of opening a file. If the disk is full, opening is tried again, like a write that fails.
pub(super) fn open_error(error: io::Error) -> OpenError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => OpenError::NotYet(error),
        _ => OpenError::Refused(error),
    }
}

/// Makes sure that nobody else writes to the file.
///
/// # Errors
/// `ResourceBusy`: somebody does.
pub(super) fn lock(file: &dyn StorageFile, path: &Path) -> io::Result<()> {
    let path = path.display();
    file.try_lock().map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => io::Error::new(
            ErrorKind::ResourceBusy,
            format!("another process, or another sink, writes to {path}; choose another file"),
        ),
        kind => io::Error::new(kind, format!("{path}: cannot lock it: {error}")),
    })
}

pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
