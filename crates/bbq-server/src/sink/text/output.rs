//! Where formatted messages go.

use std::io::{self, ErrorKind};
use std::path::Path;

use chrono::{DateTime, Utc};

use crate::sink::interface::OpenError;

/// Where formatted messages go.
///
/// A commit is [`Output::commit`], then a cursor with [`Output::state`] in it, then [`Output::committed`]. The time, where a
/// call is given it, is the wall clock's.
pub(super) trait Output: Send {
    /// Where the next byte goes: for a buffer that may be written as it lies in memory. 0 in a file that is empty.
    fn position(&self) -> u64 {
        0
    }

    /// Bytes that may still be written before a new file is due.
    fn room(&self) -> u64 {
        u64::MAX
    }

    /// Takes what is behind `taken` of `bytes`, and moves `taken` behind what it took. `WouldBlock` when nobody makes room
    /// for a moment; then, and after any error, the same bytes are to be handed over again.
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

    /// Notices what others did to the output. `true` when there is another state to be remembered before anything is written.
    fn follow(&mut self, now: DateTime<Utc>) -> io::Result<bool> {
        let _unused = now;
        Ok(false)
    }

    /// Whether what was written can be taken back; if not, a write that failed goes on where it stopped.
    fn can_go_back(&self) -> bool {
        false
    }

    /// Takes back what was written since the last commit, durably, if that can be: it is all written again. Its state is to be
    /// remembered then. Never between [`Output::begin_rotation`] and the end of [`Output::rotate`].
    fn go_back(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Whether a new one is due because of its age.
    fn is_old(&self, now: DateTime<Utc>) -> bool {
        let _unused = now;
        false
    }

    /// Decides under which name it is set aside; the state to be remembered before that is done names it.
    fn begin_rotation(&mut self, now: DateTime<Utc>) -> io::Result<()> {
        let _unused = now;
        Ok(())
    }

    /// Sets it aside and begins a new one, whose state is to be remembered before anything is written. After an error it is
    /// to be called again.
    fn rotate(&mut self, now: DateTime<Utc>) -> io::Result<()> {
        let _unused = now;
        Ok(())
    }
}

/// Of a file. A disk that is full is waited for, as it is later.
pub(super) fn of_file(error: io::Error) -> OpenError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => OpenError::NotYet(error),
        _ => OpenError::Refused(error),
    }
}

pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
