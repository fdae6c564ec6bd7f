//! A file that gets each message exactly once. The cursor remembers the file (by inode) and its length. After a crash, or after a
//! failed write or sync, the bytes beyond that length are cut off, and their messages are written again.
//!
//! ```text
//! remembered: inode <n> length <n> [rotating <name>]
//! ```
//!
//! A failed sync says that some bytes are not on disk, but not which; the next sync would succeed all the same (fsync(2)). So
//! everything behind the last commit is cut off.
//!
//! Rotation takes several commits: the name is remembered before the file is renamed, and the new file before anything is written
//! to it. So after a crash at any point the old file is whole, under its old or its new name, and the new file is empty.
//!
//! Other programs may rotate the file. If the file was renamed away (logrotate `create`), a new one is begun at the next commit.
//! If the file was emptied in place (`copytruncate`), it is appended to.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bbq_storage::{OpenMode, ShownBytes, Storage, StorageFile, parent_of};
use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use tracing::{info, warn};

use super::aside;
use super::output::{Output, lock, named};
use super::rotation::Rotation;

/// How far the day of a file may be ahead of the clock, which was set back: more is a clock that was wrong before.
const MAX_AHEAD: chrono::Days = chrono::Days::new(1);

pub(super) struct FileOutput {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    rotation: Rotation,
    file: Box<dyn StorageFile>,
    inode: u64,
    /// How many bytes are known to be in the file.
    length: u64,
    /// How many of them the cursor covers, or were there before. Never more than `length`.
    committed: u64,
    /// The position of the line feed that ends earlier text, until a cursor covers it; see [`FileOutput::begin_line`].
    unknown_end: Option<u64>,
    /// The day of the first message (UTC). If the file was not empty when it was opened, the day of its last change.
    day: NaiveDate,
    /// The name that the file gets when it is set aside, once that name is chosen.
    aside: Option<PathBuf>,
    /// Whether the file has that name already; the new file is then not open yet.
    is_aside: bool,
    /// How often another program cut the file short.
    truncations: u64,
    /// The last name that was chosen. No other sink sets this file aside: the file is locked.
    last_aside: Option<PathBuf>,
}

/// What the cursor remembers. The name that the file is about to get is only for people: nothing is written before the rename,
/// so the file has the remembered length under either name.
pub(super) struct Remembered {
    pub(super) inode: u64,
    pub(super) length: u64,
}

impl Remembered {
    pub(super) fn parse(state: &str) -> Option<Remembered> {
        let rest = state.strip_prefix("inode ")?;
        let (inode, rest) = rest.split_once(" length ")?;
        let length = rest.split_once(" rotating ").map_or(rest, |(length, _)| length);
        Some(Remembered { inode: inode.parse().ok()?, length: length.parse().ok()? })
    }
}

impl FileOutput {
    /// Opens the file, creates it and its directories if needed, and cuts it back to the remembered length.
    pub(super) fn open(
        storage: &Arc<dyn Storage>,
        path: &Path,
        rotation: Rotation,
        state: Option<&str>,
        now: DateTime<Utc>,
    ) -> io::Result<FileOutput> {
        make_directories(&**storage, path)?;
        let remembered = state.and_then(Remembered::parse);
        if remembered.is_some() {
            // A crash may have come between a rename and its sync.
            sync_names(&**storage, path)?;
        }
        let mut output = FileOutput::append_to(Arc::clone(storage), path, rotation, now)?;
        match remembered {
            Some(remembered) if remembered.inode == output.inode => output.cut_back(remembered.length)?,
            Some(_) => {
                info!(path = %path.display(), "the file at this path is not the file of the last run; appending to it");
                output.begin_line()?;
            }
            None => output.begin_line()?,
        }
        Ok(output)
    }

    fn append_to(
        storage: Arc<dyn Storage>,
        path: &Path,
        rotation: Rotation,
        now: DateTime<Utc>,
    ) -> io::Result<FileOutput> {
        let told = |error: io::Error| named(path, &error);
        let file = storage.open(path, OpenMode::Append).map_err(told)?;
        lock(&*file, path)?;
        sync_names(&*storage, path)?;
        let (inode, length) = (file.inode().map_err(told)?, file.len().map_err(told)?);
        let day = match file.modified() {
            Ok(time) if length > 0 => DateTime::<Utc>::from(time).date_naive(),
            _ => now.date_naive(),
        };
        Ok(FileOutput {
            path: path.to_owned(),
            rotation,
            inode,
            length,
            committed: length,
            unknown_end: None,
            file,
            day,
            aside: None,
            is_aside: false,
            truncations: 0,
            last_aside: None,
            storage,
        })
    }

    fn cut_back(&mut self, length: u64) -> io::Result<()> {
        if self.length > length {
            info!(path = %self.path.display(), bytes = self.length - length, "cutting off bytes that the cursor does not cover");
            self.committed = length;
            self.cut()?;
        } else if self.length < length {
            warn!(path = %self.path.display(), missing = length - self.length, "the file is shorter than what was written to it");
            self.begin_line()?;
        }
        Ok(())
    }

    /// Makes sure that the next message begins a line: a crash may have torn the last line, or somebody else wrote it. If the end
    /// cannot be read, an empty line does no harm.
    fn begin_line(&mut self) -> io::Result<()> {
        let mut last = [0];
        let Some(end) = self.length.checked_sub(1) else { return Ok(()) };
        if self.file.read_at(end, &mut last).is_ok_and(|read| read == 1) && last == *b"\n" {
            self.unknown_end = Some(end);
            return Ok(());
        }
        self.file.write_all_at(self.length, b"\n").map_err(|error| named(&self.path, &error))?;
        self.unknown_end = Some(self.length);
        self.length += 1;
        self.committed = self.length;
        Ok(())
    }

    /// Writes the line feed at an unknown end once more. An earlier sync may have failed, in this run or the one before: then the
    /// system has the line feed in memory, takes it for written, and the next sync succeeds without it (fsync(2)). The same may be
    /// true of all that would be appended to this page later. So the pages are dropped first; see `write_again` of bbq-storage.
    fn write_end_again(&self, end: u64) -> io::Result<()> {
        // The open handle only appends (O_APPEND), so the file is opened once more.
        let file = match self.storage.open(&self.path, OpenMode::Existing) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        if file.inode()? != self.inode || file.len()? <= end {
            return Ok(());
        }
        // Dirty pages cannot be dropped. If this sync fails, the pages are clean all the same.
        let _may_fail_again = file.sync_data();
        file.forget_cached()?;
        file.write_all_at(end, b"\n")
    }

    /// Cuts the file to what the cursor covers, durably. Never makes it longer: somebody else may have cut it meanwhile.
    fn cut(&mut self) -> io::Result<()> {
        let cut = || {
            let length = self.file.len()?.min(self.committed);
            self.file.set_len(length)?;
            // The length is metadata, and the file's last page may have been written in part.
            self.file.sync_all()?;
            Ok(length)
        };
        self.length = cut().map_err(|error| named(&self.path, &error))?;
        self.committed = self.length;
        Ok(())
    }

    /// Of a write of so many bytes.
    fn write_error(&self, error: &io::Error, needed: u64) -> io::Error {
        let named = named(&self.path, error);
        // What a quota leaves is not known.
        if error.kind() != io::ErrorKind::StorageFull {
            return named;
        }
        let Ok(free) = self.storage.available(parent_of(&self.path)) else { return named };
        let (free, needed) = (ShownBytes(free), ShownBytes(needed));
        io::Error::new(
            named.kind(),
            format!("{named}; its disk has {free} free, and the next write needs {needed}"),
        )
    }

    /// Whether our file is still at the path. An error does not mean "no": a file that is still ours cannot be locked again.
    fn is_still_there(&self) -> io::Result<bool> {
        self.file.is_at(&self.path).map_err(|error| named(&self.path, &error))
    }

    /// Whether the file has no name any more. Unknown counts as no.
    fn is_deleted(&self) -> bool {
        self.file.links().is_ok_and(|links| links == 0)
    }

    /// Goes on with the file that is at the path now, or with a new one.
    fn begin_new(&mut self, now: DateTime<Utc>) -> io::Result<()> {
        // Somebody may have deleted the directory, too.
        make_directories(&*self.storage, &self.path)?;
        let mut new = FileOutput::append_to(Arc::clone(&self.storage), &self.path, self.rotation, now)?;
        new.begin_line()?;
        let truncations = self.truncations;
        *self = FileOutput { last_aside: self.last_aside.take(), truncations, ..new };
        Ok(())
    }
}

impl Output for FileOutput {
    fn position(&self) -> u64 {
        self.length
    }

    fn room(&self) -> u64 {
        self.rotation.bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(self.length))
    }

    fn write(&mut self, bytes: &[u8], taken: &mut usize, now: DateTime<Utc>) -> io::Result<()> {
        if self.length == 0 || self.day > now.date_naive() + MAX_AHEAD {
            self.day = now.date_naive();
        }
        let rest = &bytes[*taken..];
        let written = self.file.write_all_at(self.length, rest);
        written.map_err(|error| self.write_error(&error, rest.len() as u64))?;
        self.length += (bytes.len() - *taken) as u64;
        *taken = bytes.len();
        Ok(())
    }

    fn commit(&mut self) -> io::Result<()> {
        if let Some(end) = self.unknown_end {
            self.write_end_again(end).map_err(|error| named(&self.path, &error))?;
        }
        let synced = self.file.sync_data().and_then(|()| self.file.len());
        let length = synced.map_err(|error| named(&self.path, &error))?;
        // If there is another file at the path, somebody has put the old one aside first, as logrotate does, and has its lines.
        if self.length > self.committed && self.is_deleted() && self.storage.inode(&self.path).is_err() {
            let path = self.path.display();
            return Err(io::Error::other(format!(
                "{path} was deleted while it was written; its last messages are written again, to a new file"
            )));
        }
        if length < self.length {
            self.truncations = self.truncations.saturating_add(1);
            let (path, bytes) = (self.path.display(), self.length - length);
            warn!(%path, bytes, "another process truncated the file; continuing at its end");
        } else if length > self.length {
            // The length includes their bytes: a cut to the length of ours alone would cut off our last bytes.
            warn!(path = %self.path.display(), bytes = length - self.length, "another process also writes to the file");
        }
        self.length = length;
        Ok(())
    }

    fn state(&self) -> String {
        let aside = self.aside.as_ref().and_then(|path| path.file_name());
        let rotating = aside.map(|name| format!(" rotating {}", name.to_string_lossy())).unwrap_or_default();
        format!("inode {} length {}{rotating}", self.inode, self.length)
    }

    fn committed(&mut self) {
        self.committed = self.length;
        self.unknown_end = None;
    }

    fn has_moved(&self) -> bool {
        // An error is met by the write, or by the commit.
        self.is_still_there().is_ok_and(|is_there| !is_there)
    }

    fn truncations(&self) -> u64 {
        self.truncations
    }

    fn follow(&mut self, now: DateTime<Utc>) -> io::Result<bool> {
        if self.is_still_there()? {
            return Ok(false);
        }
        info!(path = %self.path.display(), "the file was moved away; beginning a new one");
        make_directories(&*self.storage, &self.path)?;
        sync_names(&*self.storage, &self.path)?;
        self.begin_new(now)?;
        Ok(true)
    }

    fn can_roll_back(&self) -> bool {
        true
    }

    fn roll_back(&mut self) -> io::Result<()> {
        if self.is_deleted() {
            // Nothing in it can be taken back or kept. Messages since the last commit go into the new file.
            let day = self.day.and_time(NaiveTime::MIN).and_utc();
            return self.begin_new(day);
        }
        self.cut()
    }

    fn is_old(&self, now: DateTime<Utc>) -> bool {
        self.rotation.daily && self.length > 0 && self.day < now.date_naive()
    }

    fn begin_rotation(&mut self, now: DateTime<Utc>) -> io::Result<()> {
        let name = aside::next_name(&*self.storage, &self.path, self.last_aside.as_deref(), now);
        self.aside = Some(name.map_err(|error| named(&self.path, &error))?);
        self.last_aside.clone_from(&self.aside);
        Ok(())
    }

    fn rotate(&mut self, now: DateTime<Utc>) -> io::Result<()> {
        if let Some(aside) = self.aside.as_ref().filter(|_| !self.is_aside) {
            // A file that somebody else has put there is not moved.
            if self.is_still_there()? {
                self.storage.rename(&self.path, aside).map_err(|error| named(aside, &error))?;
            }
            sync_names(&*self.storage, &self.path)?;
            self.is_aside = true;
            if let Some(keep) = self.rotation.keep
                && let Err(error) = aside::delete_old(&*self.storage, &self.path, keep)
            {
                warn!(path = %self.path.display(), %error, "cannot delete old files that were set aside");
            }
        }
        self.begin_new(now)
    }
}

/// Makes the directories that the file is in, durably.
fn make_directories(storage: &dyn Storage, path: &Path) -> io::Result<()> {
    let parent = parent_of(path);
    let was_there = storage.kind(parent).is_ok();
    match storage.create_dir_all(parent) {
        Ok(()) if !was_there => {
            // The path may be misspelt.
            info!(directory = %parent.display(), "created the missing directory of this file");
            Ok(())
        }
        // If this directory exists already, it does not matter that the one above is closed to us.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && storage.inode(parent).is_ok() => {
            Ok(())
        }
        made => made.map_err(|error| named(parent, &error)),
    }
}

/// Makes the names of files durable. A renamed file must keep its new name before another file gets its old name: a power cut may
/// keep only the later of two changes.
fn sync_names(storage: &dyn Storage, path: &Path) -> io::Result<()> {
    let parent = parent_of(path);
    storage.sync_dir(parent).map_err(|error| named(parent, &error))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, OpenOptions};
    use std::io::Write;

    use bbq_storage::DiskStorage;

    use super::*;

    fn disk() -> Arc<dyn Storage> {
        Arc::new(DiskStorage)
    }

    fn open(path: &Path, rotation: Rotation, state: Option<&str>) -> FileOutput {
        FileOutput::open(&disk(), path, rotation, state, Utc::now()).unwrap()
    }

    fn write(output: &mut FileOutput, bytes: &[u8]) {
        output.write(bytes, &mut 0, Utc::now()).unwrap();
    }

    /// Returns what the cursor has then.
    fn commit(output: &mut FileOutput) -> String {
        output.commit().unwrap();
        let state = output.state();
        output.committed();
        if output.follow(Utc::now()).unwrap() { output.state() } else { state }
    }

    /// All steps; returns what the cursor has then.
    fn rotate(output: &mut FileOutput) -> String {
        commit(output);
        output.begin_rotation(Utc::now()).unwrap();
        output.committed();
        output.rotate(Utc::now()).unwrap();
        output.committed();
        output.state()
    }

    #[test]
    fn what_the_cursor_does_not_cover_is_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/er/out.log");
        let mut output = open(&path, Rotation::default(), None);
        write(&mut output, b"one\n");
        let state = commit(&mut output);
        write(&mut output, b"two\n");
        drop(output);
        let mut output = open(&path, Rotation::default(), Some(&state));
        write(&mut output, b"2\n");
        assert_eq!(fs::read(&path).unwrap(), b"one\n2\n");
    }

    #[test]
    fn a_directory_that_was_deleted_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/er/out.log");
        let mut output = open(&path, Rotation::default(), None);
        write(&mut output, b"one\n");
        commit(&mut output);
        fs::remove_dir_all(directory.path().join("deep")).unwrap();
        assert!(output.has_moved());
        assert!(output.follow(Utc::now()).unwrap());
        write(&mut output, b"two\n");
        commit(&mut output);
        assert_eq!(fs::read(&path).unwrap(), b"two\n");
        // In the middle of a group, which is written again.
        write(&mut output, b"three\n");
        fs::remove_dir_all(directory.path().join("deep")).unwrap();
        assert!(output.commit().is_err());
        output.roll_back().unwrap();
        write(&mut output, b"three\n");
        commit(&mut output);
        assert_eq!(fs::read(&path).unwrap(), b"three\n");
    }

    #[test]
    fn a_clock_that_goes_back_over_midnight_sets_nothing_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        let at = |time: &str| DateTime::parse_from_rfc3339(time).unwrap().to_utc();
        let after = at("2026-11-28T00:00:01Z");
        let mut output =
            FileOutput::open(&disk(), &path, Rotation { daily: true, ..Rotation::default() }, None, after)
                .unwrap();
        output.write(b"one\n", &mut 0, after).unwrap();
        assert!(!output.is_old(at("2026-11-27T23:59:59Z")));
        assert!(!output.is_old(after));
        assert!(output.is_old(at("2026-11-29T00:00:00Z")));
        // A clock that was a year ahead stops no rotation for a year.
        output.day = at("2027-11-28T00:00:00Z").date_naive();
        output.write(b"two\n", &mut 0, after).unwrap();
        assert!(!output.is_old(after) && output.is_old(at("2026-11-29T00:00:00Z")));
    }

    #[test]
    fn a_line_feed_at_an_unknown_end_is_written_again_before_it_is_believed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        fs::write(&path, "before\n").unwrap();
        let mut output = open(&path, Rotation::default(), None);
        // What a failed sync leaves, once the system needs the memory.
        fs::write(&path, "before\0").unwrap();
        commit(&mut output);
        write(&mut output, b"ours\n");
        assert_eq!(fs::read(&path).unwrap(), b"before\nours\n");
        // Only until it is committed.
        fs::write(&path, "before\0").unwrap();
        commit(&mut output);
        assert_eq!(fs::read(&path).unwrap(), b"before\0");
    }

    #[test]
    fn what_follows_an_unknown_end_does_not_hide_that_its_line_feed_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        fs::write(&path, "torn").unwrap();
        let mut output = open(&path, Rotation::default(), None);
        write(&mut output, b"ours\n");
        fs::write(&path, "torn\0ours\n").unwrap();
        commit(&mut output);
        assert_eq!(fs::read(&path).unwrap(), b"torn\nours\n");
    }

    #[test]
    fn going_back_leaves_what_was_committed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        let mut output = open(&path, Rotation::default(), None);
        write(&mut output, b"one\n");
        let state = commit(&mut output);
        write(&mut output, b"two\n");
        // Half a message: its write failed.
        output.file.write_all_at(output.length, b"th").unwrap();
        output.roll_back().unwrap();
        assert_eq!(output.state(), state);
        assert_eq!(fs::read(&path).unwrap(), b"one\n");
        write(&mut output, b"2\n");
        assert_eq!(fs::read(&path).unwrap(), b"one\n2\n");
    }

    #[test]
    fn going_back_never_makes_a_file_longer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        let mut output = open(&path, Rotation::default(), None);
        write(&mut output, b"one\n");
        commit(&mut output);
        File::create(&path).unwrap();
        output.roll_back().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        assert_eq!(output.position(), 0);
    }

    #[test]
    fn a_file_that_others_had_before_is_appended_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        fs::write(&path, "before\n").unwrap();
        let mut output = open(&path, Rotation::default(), None);
        write(&mut output, b"ours\n");
        output.roll_back().unwrap();
        write(&mut output, b"ours\n");
        drop(output);
        assert_eq!(fs::read(&path).unwrap(), b"before\nours\n");
    }

    #[test]
    fn rotation_by_others_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        let mut output = open(&path, Rotation::default(), None);
        write(&mut output, b"a\n");
        fs::rename(&path, directory.path().join("moved")).unwrap();
        commit(&mut output);
        write(&mut output, b"b\n");
        assert_eq!(fs::read(&path).unwrap(), b"b\n");
        // copytruncate
        File::create(&path).unwrap();
        write(&mut output, b"c\n");
        commit(&mut output);
        assert_eq!(fs::read(&path).unwrap(), b"c\n");
    }

    #[test]
    fn what_others_append_does_not_cost_ours() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        let mut output = open(&path, Rotation::default(), None);
        write(&mut output, b"one\n");
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"theirs\n").unwrap();
        write(&mut output, b"two\n");
        let state = commit(&mut output);
        write(&mut output, b"three\n");
        drop(output);
        let mut output = open(&path, Rotation::default(), Some(&state));
        write(&mut output, b"3\n");
        assert_eq!(fs::read(&path).unwrap(), b"one\ntheirs\ntwo\n3\n");
    }

    /// After a crash at any step of a rotation, the next start goes on after what the cursor covers, in a file where nothing else
    /// was written.
    #[test]
    fn a_crash_behind_any_step_of_a_rotation_loses_and_doubles_nothing() {
        for steps in 0..6 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("out.log");
            let rotation = Rotation { bytes: Some(4), daily: false, keep: Some(9) };
            let mut output = open(&path, rotation, None);
            write(&mut output, b"0\n");
            let mut state = commit(&mut output);
            // What the cursor covers. The next start writes the rest again.
            let mut covered = "0\n";
            write(&mut output, b"1\n");
            if steps >= 1 {
                output.commit().unwrap();
            }
            if steps >= 2 {
                output.begin_rotation(Utc::now()).unwrap();
            }
            if steps >= 3 {
                state = output.state();
                covered = "0\n1\n";
                output.committed();
            }
            if steps >= 4 {
                fs::rename(&path, output.aside.as_ref().unwrap()).unwrap();
            }
            if steps >= 5 {
                output.begin_new(Utc::now()).unwrap();
            }
            drop(output);
            let mut output = open(&path, rotation, Some(&state));
            let missing: &[u8] = if covered.len() == 2 { b"1\n" } else { b"" };
            write(&mut output, missing);
            rotate(&mut output);
            write(&mut output, b"2\n");
            let mut all: Vec<u8> = Vec::new();
            for path in aside::list(&DiskStorage, &path).unwrap() {
                all.extend(fs::read(path).unwrap());
            }
            all.extend(fs::read(&path).unwrap());
            assert_eq!(String::from_utf8(all).unwrap(), "0\n1\n2\n", "behind step {steps}");
        }
    }

    #[test]
    fn the_newest_are_kept_however_many_come_within_a_second() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        let mut output = open(&path, Rotation { bytes: Some(2), daily: false, keep: Some(2) }, None);
        for round in 0..9 {
            assert_eq!(output.room(), 2);
            write(&mut output, format!("{round}\n").as_bytes());
            assert_eq!(output.room(), 0);
            rotate(&mut output);
        }
        let texts: Vec<String> = aside::list(&DiskStorage, &path)
            .unwrap()
            .iter()
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        assert_eq!(texts, ["7\n", "8\n"]);
    }

    #[test]
    fn what_somebody_else_put_there_is_not_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        let mut output = open(&path, Rotation { bytes: Some(2), daily: false, keep: None }, None);
        write(&mut output, b"a\n");
        fs::rename(&path, directory.path().join("moved")).unwrap();
        fs::write(&path, b"theirs\n").unwrap();
        output.commit().unwrap();
        output.begin_rotation(Utc::now()).unwrap();
        output.rotate(Utc::now()).unwrap();
        write(&mut output, b"b\n");
        assert!(aside::list(&DiskStorage, &path).unwrap().is_empty());
        assert_eq!(fs::read(&path).unwrap(), b"theirs\nb\n");
    }

    #[test]
    fn a_second_writer_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        let _first = open(&path, Rotation::default(), None);
        let error = FileOutput::open(&disk(), &path, Rotation::default(), None, Utc::now())
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("another sink, writes to"), "{error}");
    }

    /// Without a cursor nobody knows where a crash has torn the file, or who else has written it.
    #[test]
    fn what_is_appended_to_an_unknown_end_begins_a_line_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        for (before, after) in [("", "ours\n"), ("whole\n", "whole\nours\n"), ("torn", "torn\nours\n")] {
            fs::write(&path, before).unwrap();
            let mut output = open(&path, Rotation::default(), None);
            write(&mut output, b"ours\n");
            // The line feed is not taken back with what came after it.
            output.roll_back().unwrap();
            write(&mut output, b"ours\n");
            assert_eq!(fs::read_to_string(&path).unwrap(), after);
        }
        // A file that somebody else has cut, and a file other than the one in the cursor.
        let state = commit(&mut open(&path, Rotation::default(), None));
        for state in [state.as_str(), "inode 0 length 3"] {
            fs::write(&path, "torn").unwrap();
            write(&mut open(&path, Rotation::default(), Some(state)), b"ours\n");
            assert_eq!(fs::read_to_string(&path).unwrap(), "torn\nours\n");
        }
        // The end of what the cursor covers is left as it is.
        fs::write(&path, "torn").unwrap();
        let inode = open(&path, Rotation::default(), None).inode;
        fs::write(&path, "rawrest").unwrap();
        write(&mut open(&path, Rotation::default(), Some(&format!("inode {inode} length 3"))), b"ours\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "rawours\n");
    }
}
