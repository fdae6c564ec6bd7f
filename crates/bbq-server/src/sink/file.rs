//! A file: exactly once. The cursor remembers which file (by inode) had which length; what is beyond that length after a
//! crash was not covered by the cursor, is cut off, and is written again.
//!
//! ```text
//! remembered: inode <n> length <n> [rotating <name>]
//! ```
//!
//! Rotation is remembered before the file is renamed, so a crash at any point finds the old file under its old or its new
//! name. Rotation by others is welcome: a file that was renamed away (logrotate `create`) is followed by a new one at the
//! next commit, one that was emptied in place (`copytruncate`) is appended to.
//!
//! What is no regular file (/dev/null, /dev/stderr, a pipe) is written to, and that is all: it has no length to remember,
//! cannot be synced, and may have other writers.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bbq_spool::direct;
use chrono::{NaiveDate, Utc};
use rustix::fs::{FlockOperation, flock};
use tracing::{info, warn};

use super::Output;
use crate::config::Rotation;

/// The number in a name has four digits: a file is set aside at most this often within one second.
const NUMBER_MAX: u32 = 9999;

pub(super) struct FileOutput {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    /// Not a device, a pipe or a socket.
    regular: bool,
    /// It takes writes past the page cache, as far as we know.
    direct: bool,
    inode: u64,
    /// What we know to be in the file.
    length: u64,
    /// A part of a failed write may stand behind `length`.
    torn: bool,
    /// The day of its first message (UTC).
    day: NaiveDate,
    /// The name the file gets when it is set aside, once that was decided.
    aside: Option<PathBuf>,
}

/// What the cursor remembers.
struct Remembered {
    inode: u64,
    length: u64,
    rotating: Option<OsString>,
}

impl Remembered {
    fn parse(state: &str) -> Option<Remembered> {
        let rest = state.strip_prefix("inode ")?;
        let (inode, rest) = rest.split_once(" length ")?;
        let (length, rotating) = match rest.split_once(" rotating ") {
            Some((length, name)) => (length, Some(OsString::from(name))),
            None => (rest, None),
        };
        Some(Remembered { inode: inode.parse().ok()?, length: length.parse().ok()?, rotating })
    }
}

impl FileOutput {
    /// Opens the file, made with its directories if needed, and cuts it back to what is remembered.
    pub(super) fn open(path: &Path, rotation: Rotation, state: Option<&str>) -> io::Result<FileOutput> {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(|error| named(parent, &error))?;
        }
        let remembered = state.and_then(Remembered::parse);
        if let Some(remembered) = &remembered {
            finish_rotation(path, remembered)?;
        }
        let mut output = FileOutput::append_to(path, rotation)?;
        match remembered {
            Some(remembered) if remembered.inode == output.inode => output.cut_back(remembered.length)?,
            Some(_) => {
                info!(path = %path.display(), "the file is another one than at the last stop; appending to it")
            }
            None => {}
        }
        Ok(output)
    }

    fn append_to(path: &Path, rotation: Rotation) -> io::Result<FileOutput> {
        let file =
            OpenOptions::new().create(true).append(true).open(path).map_err(|error| named(path, &error))?;
        let metadata = file.metadata()?;
        if metadata.is_file() {
            flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
                let path = path.display();
                io::Error::other(format!("{path} is written by another process; choose another file"))
            })?;
            sync_directory(path)?;
        }
        let day = metadata.modified().map_or_else(
            |_| Utc::now().date_naive(),
            |time| chrono::DateTime::<Utc>::from(time).date_naive(),
        );
        let day = if metadata.len() == 0 { Utc::now().date_naive() } else { day };
        Ok(FileOutput {
            path: path.to_owned(),
            rotation,
            regular: metadata.is_file(),
            direct: metadata.is_file(),
            inode: metadata.ino(),
            length: metadata.len(),
            torn: false,
            file,
            day,
            aside: None,
        })
    }

    fn cut_back(&mut self, length: u64) -> io::Result<()> {
        if self.length > length {
            info!(path = %self.path.display(), bytes = self.length - length, "taking back what the cursor does not cover");
            self.file.set_len(length)?;
            self.file.sync_all()?;
            self.length = length;
        } else if self.length < length {
            warn!(path = %self.path.display(), missing = length - self.length, "the file is shorter than what was written to it");
        }
        Ok(())
    }

    fn state(&self) -> String {
        let aside = self.aside.as_ref().and_then(|path| path.file_name());
        let rotating = aside.map(|name| format!(" rotating {}", name.to_string_lossy())).unwrap_or_default();
        format!("inode {} length {}{rotating}", self.inode, self.length)
    }

    /// Cuts off the part of a write that failed. Never longer: somebody else may have cut the file meanwhile.
    fn take_back_part(&mut self) -> io::Result<()> {
        let length = self.file.metadata().map_err(|error| named(&self.path, &error))?.len();
        self.file.set_len(length.min(self.length)).map_err(|error| named(&self.path, &error))?;
        self.torn = false;
        Ok(())
    }

    /// Notices what others did to the file.
    fn follow(&mut self) -> io::Result<()> {
        if !self.regular {
            return Ok(());
        }
        let length = self.file.metadata()?.len();
        if length < self.length {
            warn!(path = %self.path.display(), "the file was cut by somebody else; going on at its end");
        } else if length > self.length {
            // Remembered with ours: cutting back to ours alone would take our last bytes for theirs.
            warn!(path = %self.path.display(), bytes = length - self.length, "somebody else writes to the file, too");
        }
        self.length = length;
        let still_ours = fs::metadata(&self.path).is_ok_and(|metadata| metadata.ino() == self.inode);
        if !still_ours {
            info!(path = %self.path.display(), "the file was moved away; beginning a new one");
            *self = FileOutput::append_to(&self.path, self.rotation)?;
        }
        Ok(())
    }

    /// A name behind all others: the path, the second, and a number that counts on within it. Never one that was deleted
    /// to keep only so many, or the newest would sort as the oldest.
    fn next_name(&self) -> io::Result<PathBuf> {
        let stamp = Utc::now().format("%Y%m%d-%H%M%S").to_string();
        let set_aside = self.set_aside()?;
        let number_of = |path: &PathBuf| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            name.rsplit_once('.')?.1.strip_prefix(&stamp)?.strip_prefix('-')?.parse::<u32>().ok()
        };
        let number = set_aside.iter().rev().find_map(number_of).map_or(0, |last| last + 1);
        if number > NUMBER_MAX {
            return Err(io::Error::other(format!("{number} files were set aside within one second")));
        }
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{stamp}-{number:04}"));
        Ok(PathBuf::from(name))
    }

    /// What was set aside, oldest first: the names sort by time.
    fn set_aside(&self) -> io::Result<Vec<PathBuf>> {
        let (Some(parent), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Ok(Vec::new());
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let prefix = format!("{}.", name.to_string_lossy());
        let mut aside: Vec<PathBuf> = fs::read_dir(parent)?
            .filter_map(Result::ok)
            .filter(|entry| entry.file_name().to_string_lossy().strip_prefix(&prefix).is_some_and(is_stamp))
            .map(|entry| entry.path())
            .collect();
        aside.sort();
        Ok(aside)
    }

    /// Deletes the oldest of those set aside, beyond what is to be kept.
    fn delete_old(&self) -> io::Result<()> {
        let Some(keep) = self.rotation.keep else { return Ok(()) };
        let aside = self.set_aside()?;
        let surplus = aside.len().saturating_sub(keep as usize);
        for path in aside.iter().take(surplus) {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

impl Output for FileOutput {
    fn position(&self) -> u64 {
        self.length
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.torn {
            self.take_back_part()?;
        }
        let written = if self.regular {
            direct::write_all_at(&self.file, self.length, bytes, &mut self.direct)
        } else {
            // It has no places.
            (&self.file).write_all(bytes)
        };
        match written {
            Ok(()) => {
                self.length += if self.regular { bytes.len() as u64 } else { 0 };
                Ok(())
            }
            Err(error) => {
                // Whatever part of it was written must not stay: the next try writes all of it.
                self.torn = self.regular;
                if self.torn
                    && let Err(worse) = self.take_back_part()
                {
                    warn!(error = %worse, "cannot take back a part of a failed write; trying again before the next");
                }
                Err(named(&self.path, &error))
            }
        }
    }

    fn commit(&mut self) -> io::Result<String> {
        if self.regular {
            self.file.sync_data().map_err(|error| named(&self.path, &error))?;
        }
        self.follow()?;
        Ok(self.state())
    }

    fn rotation_due(&mut self) -> Option<String> {
        let large = self.rotation.bytes.is_some_and(|bytes| self.length >= bytes);
        let old = self.rotation.daily && self.day != Utc::now().date_naive();
        if self.length == 0 || !self.regular || !(large || old) {
            return None;
        }
        match self.next_name() {
            Ok(name) => self.aside = Some(name),
            Err(error) => {
                warn!(path = %self.path.display(), %error, "no name to set the file aside under; going on with it");
                return None;
            }
        }
        Some(self.state())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let Some(aside) = self.aside.take() else { return Ok(()) };
        fs::rename(&self.path, &aside).map_err(|error| named(&aside, &error))?;
        *self = FileOutput::append_to(&self.path, self.rotation)?;
        if let Err(error) = self.delete_old() {
            warn!(path = %self.path.display(), %error, "cannot delete old files that were set aside");
        }
        Ok(())
    }
}

/// A crash may have come between the rename and the next commit: then the remembered file has its new name, and has
/// exactly the remembered length, for nothing is written between the two.
fn finish_rotation(path: &Path, remembered: &Remembered) -> io::Result<()> {
    let Some(name) = &remembered.rotating else { return Ok(()) };
    let aside = path.with_file_name(name);
    let renamed = fs::metadata(&aside).is_ok_and(|metadata| metadata.ino() == remembered.inode);
    if renamed {
        sync_directory(path)?;
    }
    Ok(())
}

/// `20261120-101500-0000`
fn is_stamp(text: &str) -> bool {
    text.len() == 20
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 15 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn open(path: &Path, rotation: Rotation, state: Option<&str>) -> FileOutput {
        FileOutput::open(path, rotation, state).unwrap()
    }

    #[test]
    fn what_the_cursor_does_not_cover_is_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/er/out.log");
        let mut output = open(&path, Rotation::default(), None);
        output.write(b"one\n").unwrap();
        let state = output.commit().unwrap();
        output.write(b"two\n").unwrap();
        drop(output);
        let mut output = open(&path, Rotation::default(), Some(&state));
        output.write(b"2\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one\n2\n");
    }

    #[test]
    fn a_file_that_others_had_before_is_appended_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        fs::write(&path, "before\n").unwrap();
        let mut output = open(&path, Rotation::default(), None);
        output.write(b"ours\n").unwrap();
        drop(output);
        assert_eq!(fs::read(&path).unwrap(), b"before\nours\n");
    }

    #[test]
    fn rotation_by_others_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        let mut output = open(&path, Rotation::default(), None);
        output.write(b"a\n").unwrap();
        fs::rename(&path, directory.path().join("moved")).unwrap();
        output.commit().unwrap();
        output.write(b"b\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"b\n");
        // copytruncate
        File::create(&path).unwrap();
        output.write(b"c\n").unwrap();
        output.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"c\n");
    }

    #[test]
    fn what_others_append_does_not_cost_ours() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        let mut output = open(&path, Rotation::default(), None);
        output.write(b"one\n").unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"theirs\n").unwrap();
        output.write(b"two\n").unwrap();
        let state = output.commit().unwrap();
        output.write(b"three\n").unwrap();
        drop(output);
        let mut output = open(&path, Rotation::default(), Some(&state));
        output.write(b"3\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one\ntheirs\ntwo\n3\n");
    }

    #[test]
    fn a_part_of_a_failed_write_that_could_not_be_taken_back_goes_before_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        let mut output = open(&path, Rotation::default(), None);
        output.write(b"one\n").unwrap();
        output.file.write_all(b"tw").unwrap();
        output.torn = true;
        output.write(b"two\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n");
        assert_eq!(output.length, 8);
    }

    #[test]
    fn rotation_survives_a_crash_between_its_steps_and_keeps_only_what_it_should() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        let rotation = Rotation { bytes: Some(2), daily: false, keep: Some(2) };
        let mut state = None;
        for round in 0..5 {
            let mut output = open(&path, rotation, state.as_deref());
            output.write(format!("{round}\n").as_bytes()).unwrap();
            output.commit().unwrap();
            state = output.rotation_due();
            assert!(state.is_some());
            // Even rounds crash before the rename, odd ones behind it.
            if round % 2 == 1 {
                output.rotate().unwrap();
            }
        }
        let mut texts: Vec<String> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
            .collect();
        texts.sort();
        assert_eq!(texts, ["0\n1\n", "2\n3\n", "4\n"]);
    }

    #[test]
    fn the_newest_are_kept_however_many_come_within_a_second() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        let mut output = open(&path, Rotation { bytes: Some(2), daily: false, keep: Some(2) }, None);
        for round in 0..9 {
            output.write(format!("{round}\n").as_bytes()).unwrap();
            output.commit().unwrap();
            assert!(output.rotation_due().is_some());
            output.rotate().unwrap();
        }
        let texts: Vec<String> =
            output.set_aside().unwrap().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(texts, ["7\n", "8\n"]);
    }

    #[test]
    fn a_device_is_written_to_and_never_synced_cut_or_set_aside() {
        let rotation = Rotation { bytes: Some(1), daily: true, keep: Some(1) };
        let mut output = open(Path::new("/dev/null"), rotation, None);
        output.write(b"gone\n").unwrap();
        let state = output.commit().unwrap();
        assert_eq!(output.rotation_due(), None);
        // The first is still open: a device may have many writers.
        open(Path::new("/dev/null"), rotation, Some(&state)).commit().unwrap();
        let error = open(Path::new("/dev/full"), rotation, None).write(b"no room\n").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_pipe_takes_what_its_reader_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read(path).unwrap()
        });
        let mut output = open(&path, Rotation::default(), None);
        let long = vec![b'x'; 300_000];
        output.write(b"first\n").unwrap();
        output.write(&long).unwrap();
        output.commit().unwrap();
        drop(output);
        assert!(reader.join().unwrap() == [b"first\n".as_slice(), &long].concat());
    }

    #[test]
    fn a_second_writer_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        let _first = open(&path, Rotation::default(), None);
        let error = FileOutput::open(&path, Rotation::default(), None).err().unwrap().to_string();
        assert!(error.contains("written by another process"), "{error}");
    }
}
