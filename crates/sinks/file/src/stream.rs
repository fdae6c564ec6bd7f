//! An output that cannot be cut back: standard output, a pipe, a device. Written messages count as delivered; after a crash the
//! messages since the last commit are written again. They are also written again after a failed sync, if the output is a file or
//! a disk: the error does not say which messages are lost, and none can be taken back.
//!
//! A write that ends in the middle of a message goes on at that very byte, so each message comes once and whole, however
//! little of it the pipe takes at a time. A reader that goes away may have read half a message. The next reader gets what the
//! pipe still holds, and then the rest.
//!
//! Invariant: no write waits for a reader. The sink waits in a poll(2) that ends soon, so that it can be told to stop.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use bbq_sink::OpenError;
use chrono::{DateTime, Utc};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fdatasync, fstat};
use rustix::io::{Errno, retry_on_intr};

use super::output::{Output, named};

/// One wait for room: short compared with the patience of a stop, and long compared with the cost of a wake-up.
const ROOM_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Linux's PIPE_BUF is a page (POSIX demands 512 bytes): a pipe with room takes this much without a wait.
const PIECE_BYTES: usize = 4096;

pub(super) struct StreamOutput {
    file: OwnedFd,
    name: String,
    /// Whether a write may wait for a reader: then only small pieces are written, and only when there is room.
    waits: bool,
}

impl StreamOutput {
    /// Standard output. Others may share it, so its flags are left alone: where possible it is opened once more.
    pub(super) fn stdout() -> io::Result<StreamOutput> {
        let shared = io::stdout().as_fd().try_clone_to_owned()?;
        let kind = FileType::from_raw_mode(fstat(&shared)?.st_mode);
        let own = match kind {
            FileType::Fifo | FileType::CharacterDevice => {
                let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
                let path = format!("/proc/self/fd/{}", shared.as_raw_fd());
                // Without /proc, or when another user made the pipe, the shared one is used, with more system calls.
                OpenOptions::new().write(true).custom_flags(flags).open(path).ok()
            }
            // All who share an open file share its position, and a socket cannot be opened again.
            _ => None,
        };
        Ok(match own {
            Some(own) => StreamOutput::of(own, "standard output".to_owned()),
            None => StreamOutput {
                waits: kind != FileType::RegularFile && !fcntl_getfl(&shared)?.contains(OFlags::NONBLOCK),
                file: shared,
                name: "standard output".to_owned(),
            },
        })
    }

    /// Makes an output of a file that was opened with O_NONBLOCK.
    pub(super) fn of(file: File, name: String) -> StreamOutput {
        StreamOutput { file: file.into(), name, waits: false }
    }

    /// Waits a moment until something can be written.
    fn wait_room(&self) -> io::Result<()> {
        let mut polled = [PollFd::new(&self.file, PollFlags::OUT)];
        match poll(&mut polled, Some(&ROOM_WAIT)) {
            Ok(0) | Err(Errno::INTR) => Err(ErrorKind::WouldBlock.into()),
            // Also when the reader is gone: the write then fails.
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        match retry_on_intr(|| fdatasync(&self.file)) {
            // A pipe, a terminal, a socket: nothing there outlives a power failure.
            Err(Errno::INVAL | Errno::NOTSUP | Errno::ROFS) => Ok(()),
            synced => synced.map_err(|error| self.named(error)),
        }
    }

    fn named(&self, error: Errno) -> io::Error {
        let error = io::Error::from(error);
        let text = match error.kind() {
            ErrorKind::BrokenPipe => {
                format!(
                    "{}: its reader closed it; the next reader gets the remaining messages ({error})",
                    self.name
                )
            }
            _ => format!("{}: {error}", self.name),
        };
        io::Error::new(error.kind(), text)
    }
}

impl Output for StreamOutput {
    fn write(&mut self, bytes: &[u8], taken: &mut usize, _now: DateTime<Utc>) -> io::Result<()> {
        while *taken < bytes.len() {
            let mut rest = &bytes[*taken..];
            if self.waits {
                self.wait_room()?;
                rest = &rest[..rest.len().min(PIECE_BYTES)];
            }
            match rustix::io::write(&self.file, rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => *taken += written,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait_room()?,
                Err(error) => return Err(self.named(error)),
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> io::Result<()> {
        self.sync()
    }

    /// Takes nothing back. The messages are written once more only after a sync has worked: each failure costs one copy of them,
    /// however long it lasts.
    fn roll_back(&mut self) -> io::Result<()> {
        self.sync()
    }
}

/// Opens a pipe or a device directly: a `Storage` is for regular files only.
pub(super) fn open_stream(path: &Path) -> Result<Box<dyn Output>, OpenError> {
    // Without O_NONBLOCK, opening a pipe would hold the thread until somebody reads the pipe.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    match OpenOptions::new().append(true).custom_flags(flags).open(path) {
        Ok(file) => Ok(Box::new(StreamOutput::of(file, path.display().to_string()))),
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) && is_fifo(path) => {
            let why = format!("{}: no process has opened the pipe for reading", path.display());
            Err(OpenError::NotYet(io::Error::new(error.kind(), why)))
        }
        Err(error) => Err(OpenError::Refused(named(path, &error))),
    }
}

fn is_fifo(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read, pipe};

    use rustix::fs::fcntl_setfl;

    use super::*;

    fn output(waits: bool) -> (PipeReader, StreamOutput) {
        let (reader, writer) = pipe().unwrap();
        if !waits {
            fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        }
        (reader, StreamOutput { file: writer.into(), name: "test".to_owned(), waits })
    }

    #[test]
    fn a_pipe_that_takes_little_at_a_time_gets_each_byte_once() {
        let text: Vec<u8> = (0..200_000).flat_map(|number| format!("line {number}\n").into_bytes()).collect();
        for waits in [false, true] {
            let (mut reader, mut output) = output(waits);
            let read = std::thread::spawn(move || {
                let mut all = Vec::new();
                reader.read_to_end(&mut all).unwrap();
                all
            });
            let mut taken = 0;
            while let Err(error) = output.write(&text, &mut taken, Utc::now()) {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
            }
            drop(output);
            assert!(read.join().unwrap() == text);
        }
    }

    #[test]
    fn what_is_written_is_synced_where_that_means_something() {
        let directory = tempfile::tempdir().unwrap();
        let stream = |file: File| StreamOutput::of(file, "test".to_owned());
        stream(File::create(directory.path().join("file")).unwrap()).commit().unwrap();
        stream(File::options().write(true).open("/dev/null").unwrap()).commit().unwrap();
        let (_reader, mut of_pipe) = output(false);
        of_pipe.commit().unwrap();
        let (_other, socket) = std::os::unix::net::UnixStream::pair().unwrap();
        stream(File::from(OwnedFd::from(socket))).commit().unwrap();
        // A descriptor that only stands for a name cannot be synced.
        let path = OFlags::PATH.bits().cast_signed();
        let name = File::options().read(true).custom_flags(path).open(directory.path()).unwrap();
        let error = stream(name).commit().unwrap_err().to_string();
        assert!(error.starts_with("test: "), "{error}");
    }

    #[test]
    fn a_pipe_that_nobody_reads_holds_nobody_up() {
        for waits in [false, true] {
            let (reader, mut output) = output(waits);
            let mut taken = 0;
            let error = output.write(&[b'x'; 300_000], &mut taken, Utc::now()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert!(taken > 0 && taken < 300_000);
            drop(reader);
            let error = output.write(&[b'x'; 300_000], &mut taken, Utc::now()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{error}");
        }
    }

    #[test]
    fn a_device_is_written_to_and_never_cut_or_set_aside() {
        let mut output = open_stream(Path::new("/dev/null")).unwrap();
        output.write(b"gone\n", &mut 0, Utc::now()).unwrap();
        assert!(!output.is_old(Utc::now()) && !output.can_roll_back() && output.room() == u64::MAX);
        // The first is still open: a device may have many writers.
        open_stream(Path::new("/dev/null")).unwrap().commit().unwrap();
        let error =
            open_stream(Path::new("/dev/full")).unwrap().write(b"no room\n", &mut 0, Utc::now()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_pipe_is_opened_as_soon_as_somebody_reads_it_and_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(matches!(open_stream(&path), Err(OpenError::NotYet(_))));
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let _reader = OpenOptions::new().read(true).custom_flags(flags).open(&path).unwrap();
        open_stream(&path).unwrap().write(b"message\n", &mut 0, Utc::now()).unwrap();
    }

    #[test]
    fn a_directory_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(open_stream(directory.path()), Err(OpenError::Refused(_))));
    }
}
