//! Where formatted messages go, and how that is opened.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use chrono::{DateTime, Utc};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::stream::StreamOutput;
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

/// A pipe or a device: no file of a storage.
pub(super) fn open_stream(path: &Path) -> Result<Box<dyn Output>, OpenError> {
    // Without O_NONBLOCK a pipe that nobody reads would hold the thread until somebody does.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    match OpenOptions::new().append(true).custom_flags(flags).open(path) {
        Ok(file) => Ok(Box::new(StreamOutput::of(file, path.display().to_string()))),
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) && is_fifo(path) => {
            let why = format!("{}: nobody has opened the pipe for reading", path.display());
            Err(OpenError::NotYet(io::Error::new(error.kind(), why)))
        }
        Err(error) => Err(OpenError::Refused(named(path, &error))),
    }
}

fn is_fifo(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(path: &Path) -> Result<Box<dyn Output>, OpenError> {
        open_stream(path)
    }

    #[test]
    fn a_device_is_written_to_and_never_cut_or_set_aside() {
        let mut output = opened(Path::new("/dev/null")).unwrap();
        output.write(b"gone\n", &mut 0, Utc::now()).unwrap();
        assert!(!output.is_old(Utc::now()) && !output.can_go_back() && output.room() == u64::MAX);
        // The first is still open: a device may have many writers.
        opened(Path::new("/dev/null")).unwrap().commit().unwrap();
        let error =
            opened(Path::new("/dev/full")).unwrap().write(b"no room\n", &mut 0, Utc::now()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_pipe_is_opened_as_soon_as_somebody_reads_it_and_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(matches!(opened(&path), Err(OpenError::NotYet(_))));
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let _reader = OpenOptions::new().read(true).custom_flags(flags).open(&path).unwrap();
        opened(&path).unwrap().write(b"message\n", &mut 0, Utc::now()).unwrap();
    }

    #[test]
    fn a_directory_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(opened(directory.path()), Err(OpenError::Refused(_))));
    }
}
