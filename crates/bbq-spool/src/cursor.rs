//! The cursor of a sink: how far it has read, in one small file that is replaced atomically.
//!
//! ```text
//! bbq cursor 1 <crc>                        see crate::sealed
//! sink <name>
//! lane <index> <position> <record>          one line per lane
//! delivered <records>
//! dropped <records> <reason>                one line per reason
//! filtered <records>                        if there are any
//! output <state of the sink, one line>
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bbq_storage::parent_of;
use tracing::error;

use crate::epochs::{self, Epoch};
use crate::file_name::file_name_of;
use crate::limits::RECOVERED_MAX;
use crate::renames::{self, Renames};
use crate::{SpoolError, Storage, sealed};

pub(crate) const SUFFIX: &str = ".cursor";

/// A place in a lane, between two groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LanePlace {
    /// Which lane.
    pub lane: u32,
    /// Position of the next byte to read.
    pub position: u64,
    /// Records of the lane before this position.
    pub record: u64,
}

/// The state of a sink at its last commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// One place per lane; a lane that is missing is read from its beginning.
    pub places: Vec<LanePlace>,
    /// Records delivered since the sink was created.
    pub delivered: u64,
    /// Records dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Records that the sink's rules have left out.
    pub filtered: u64,
    /// The sink's own state: one line.
    pub output: String,
}

impl Cursor {
    /// The place in a lane.
    #[must_use]
    pub fn place(&self, lane: u32) -> LanePlace {
        self.places
            .iter()
            .find(|place| place.lane == lane)
            .copied()
            .unwrap_or(LanePlace { lane, ..LanePlace::default() })
    }

    fn encode(&self, sink: &str) -> String {
        let mut body = format!("sink {}\n", one_line(sink));
        // Writing to a String cannot fail.
        for place in &self.places {
            let _infallible = writeln!(body, "lane {} {} {}", place.lane, place.position, place.record);
        }
        let _infallible = writeln!(body, "delivered {}", self.delivered);
        for (reason, records) in &self.dropped {
            let _infallible = writeln!(body, "dropped {records} {}", one_line(reason));
        }
        // A cursor without them is as earlier versions write it.
        if self.filtered > 0 {
            let _infallible = writeln!(body, "filtered {}", self.filtered);
        }
        let _infallible = writeln!(body, "output {}", one_line(&self.output));
        sealed::seal("cursor", &body)
    }

    /// Whether the numbers are possible. A file with a valid checksum may still have any numbers.
    fn is_possible(&self) -> bool {
        let sum = |numbers: &mut dyn Iterator<Item = u64>| numbers.fold(0, u64::saturating_add);
        self.places.iter().all(|place| place.position <= RECOVERED_MAX)
            && sum(&mut self.places.iter().map(|place| place.record)) <= RECOVERED_MAX
            && sum(&mut self.dropped.values().copied().chain([self.delivered, self.filtered]))
                <= RECOVERED_MAX
    }

    fn decode(text: &str) -> Option<Cursor> {
        Cursor::decode_body(sealed::open("cursor", text)?)
    }

    pub(crate) fn decode_body(body: &str) -> Option<Cursor> {
        let mut cursor = Cursor::default();
        for line in body.lines() {
            let (key, value) = line.split_once(' ')?;
            match key {
                "lane" => {
                    let mut numbers = value.split(' ');
                    cursor.places.push(LanePlace {
                        lane: numbers.next()?.parse().ok()?,
                        position: numbers.next()?.parse().ok()?,
                        record: numbers.next()?.parse().ok()?,
                    });
                }
                "delivered" => cursor.delivered = value.parse().ok()?,
                "dropped" => {
                    let (records, reason) = value.split_once(' ')?;
                    cursor.dropped.insert(reason.to_owned(), records.parse().ok()?);
                }
                "filtered" => cursor.filtered = value.parse().ok()?,
                "output" => value.clone_into(&mut cursor.output),
                // The name, and fields of later versions.
                _ => {}
            }
        }
        Some(cursor)
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// The file of one sink's cursor.
pub struct CursorStore {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    sink: String,
    earlier: Vec<String>,
}

impl CursorStore {
    /// The cursor of `sink` in a directory, which is made if needed; that of another name, if an operator has given it one.
    ///
    /// # Errors
    /// If the directory cannot be made, or a rename is unclear or cannot be finished.
    pub fn new(storage: Arc<dyn Storage>, directory: &Path, sink: &str) -> Result<CursorStore, SpoolError> {
        storage.create_dir_all(directory).map_err(SpoolError::io("create", directory))?;
        let renames = Renames::read(&*storage, directory).map_err(SpoolError::io("read", directory))?;
        let present = renames.follow(sink).map_err(SpoolError::io("read", directory))?;
        renames.tidy(&*storage, directory);
        let mut store = CursorStore::of(storage, directory, &present);
        store.earlier = renames.earlier(&present);
        store.finish_rename().map_err(SpoolError::io("rename files in", directory))?;
        Ok(store)
    }

    fn of(storage: Arc<dyn Storage>, directory: &Path, sink: &str) -> CursorStore {
        let path = directory.join(file_name_of(sink) + SUFFIX);
        CursorStore { storage, path, sink: sink.to_owned(), earlier: Vec::new() }
    }

    /// The name to which that of a sink leads, which no operator need have changed.
    ///
    /// # Errors
    /// A rename is unclear.
    pub fn present_name(storage: &dyn Storage, directory: &Path, sink: &str) -> io::Result<String> {
        Renames::read(storage, directory)?.follow(sink)
    }

    /// The present name of the sink.
    #[must_use]
    pub fn sink(&self) -> &str {
        &self.sink
    }

    /// Its earlier names, the last one first.
    #[must_use]
    pub fn earlier(&self) -> &[String] {
        &self.earlier
    }

    /// The last commit; `None` if there was none. A damaged file is renamed and counts as missing. The sink then begins
    /// at the oldest message: it may repeat messages, and loses none.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub fn load(&self) -> Result<Option<Cursor>, SpoolError> {
        let bytes = match self.storage.read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SpoolError::io("read", &self.path)(error)),
        };
        let cursor = std::str::from_utf8(&bytes).ok().and_then(Cursor::decode).filter(Cursor::is_possible);
        if cursor.is_none() {
            let beside = self.path.with_extension("damaged");
            error!(path = %self.path.display(), moved_to = %beside.display(), sink = self.sink,
                "the cursor is damaged: the sink begins again at the oldest stored message, so messages may be delivered twice");
            self.storage.rename_durably(&self.path, &beside).map_err(SpoolError::io("rename", &self.path))?;
        }
        Ok(cursor)
    }

    /// Whether the file does not exist, although a cursor may have been committed.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.storage.kind(&self.path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Whether an operator has paused the sink: there is a file with the name of the cursor's and `.paused`.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.storage.kind(&self.pause_mark()).is_ok()
    }

    /// Pauses the sink, or lets it go on, also after the next start.
    ///
    /// # Errors
    /// The file could not be written or removed.
    pub fn set_paused(&self, is_paused: bool) -> io::Result<()> {
        let mark = self.pause_mark();
        let done = match is_paused {
            true => self.storage.replace(&mark, one_line(&self.sink).as_bytes()),
            false if !self.is_paused() => Ok(()),
            false => self.storage.remove(&mark).and_then(|()| self.storage.sync_dir(parent_of(&mark))),
        };
        done.map_err(|error| {
            let verb = if is_paused { "write" } else { "remove" };
            io::Error::new(error.kind(), format!("cannot {verb} {}: {error}", mark.display()))
        })
    }

    fn pause_mark(&self) -> PathBuf {
        self.path.with_extension("paused")
    }

    /// The rules of the sink and what each holds for, in their order; `None` if it never had any.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged: nobody knows then which messages the sink leaves out.
    pub fn epochs(&self) -> Result<Option<Vec<Epoch>>, SpoolError> {
        epochs::read(&*self.storage, &self.epochs_path())
            .map_err(SpoolError::io("read the rules of the sink,", self.epochs_path()))
    }

    /// Makes these the rules of the sink.
    ///
    /// # Errors
    /// The file could not be replaced. The earlier rules then still hold.
    pub fn set_epochs(&self, epochs: &[Epoch]) -> Result<(), SpoolError> {
        let encoded = epochs::encode(&one_line(&self.sink), epochs);
        let path = self.epochs_path();
        let replaced = self.storage.replace(&path, encoded.as_bytes());
        replaced.map_err(SpoolError::io("write the rules of the sink,", path))
    }

    /// The file of the sink's rules.
    #[must_use]
    pub fn epochs_path(&self) -> PathBuf {
        self.path.with_extension(epochs::EXTENSION)
    }

    /// Gives the sink, whose cursor is `committed`, another name. From then on its old name leads there.
    ///
    /// # Errors
    /// The other name has a cursor, or a file could not be written: the sink has its old name still.
    pub fn rename(&self, to: &str, committed: &Cursor) -> io::Result<CursorStore> {
        let directory = parent_of(&self.path);
        let renames = Renames::read(&*self.storage, directory)?;
        let mut other = CursorStore::of(Arc::clone(&self.storage), directory, to);
        let leads_to = renames.get(to);
        let is_taken = leads_to.is_none() && (!other.is_missing() || other.has_epochs()?);
        if leads_to.is_some_and(|name| name != self.sink) || is_taken {
            let text = format!(
                "{to} is, or was, the name of another sink, of which files are in {}",
                directory.display()
            );
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text + "; choose another name"));
        }
        match renames.path(to) {
            Some(mark) => self.rename_back(&other, committed, mark)?,
            None => {
                // There is a mark if an earlier try has written one in spite of its error.
                let mark = match renames.path(&self.sink) {
                    Some(mark) => mark.to_owned(),
                    None => renames::free_path(&*self.storage, directory, &self.sink)?,
                };
                renames::write(&*self.storage, &mark, &self.sink, to)?;
            }
        }
        // Decided. What cannot be moved now, the next commit writes or the next start moves.
        if let Ok(renames) = Renames::read(&*self.storage, directory) {
            renames.tidy(&*self.storage, directory);
            other.earlier = renames.earlier(to);
            let _later = other.finish_rename();
        }
        Ok(other)
    }

    /// Turns around the mark by which the name that this sink gets again leads to its present one.
    fn rename_back(&self, other: &CursorStore, committed: &Cursor, mark: &Path) -> io::Result<()> {
        // As long as the mark is as it was, this cursor is of no use.
        other.commit(committed)?;
        other.set_paused(self.is_paused())?;
        match self.has_epochs()? {
            true => {
                let epochs = self.storage.read(&self.epochs_path())?;
                self.storage.replace(&other.epochs_path(), &epochs)?;
            }
            false => self.remove(&other.epochs_path())?,
        }
        let turned = renames::write(&*self.storage, mark, &self.sink, &other.sink);
        if turned.is_err() {
            // The mark may be turned around in spite of it: then the next start moves the cursor of this name, which is newer by then.
            let paths = [other.path.clone(), other.pause_mark(), other.epochs_path()];
            let _of_no_use = paths.map(|path| self.remove(&path));
        }
        turned
    }

    /// Moves what a rename has left under an earlier name.
    fn finish_rename(&self) -> io::Result<()> {
        for earlier in &self.earlier {
            let earlier = CursorStore::of(Arc::clone(&self.storage), parent_of(&self.path), earlier);
            // The rules come first: without them, the cursor would say less than it does.
            let moves = [
                (earlier.epochs_path(), &self.epochs_path()),
                (earlier.path.clone(), &self.path),
                (earlier.pause_mark(), &self.pause_mark()),
            ];
            for (from, to) in moves {
                if !renames::is_there(&*self.storage, &from)? {
                    continue;
                }
                match renames::is_there(&*self.storage, to)? {
                    true => self.remove(&from)?,
                    false => self.storage.rename_durably(&from, to)?,
                }
            }
        }
        Ok(())
    }

    fn has_epochs(&self) -> io::Result<bool> {
        renames::is_there(&*self.storage, &self.epochs_path())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.storage.remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| self.storage.sync_dir(parent_of(path))),
        }
    }

    /// Makes `cursor` the last commit.
    ///
    /// # Errors
    /// The file could not be replaced. The last commit is then still valid.
    pub fn commit(&self, cursor: &Cursor) -> io::Result<()> {
        let encoded = cursor.encode(&self.sink);
        let mut replaced = self.storage.replace(&self.path, encoded.as_bytes());
        if replaced.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            // Somebody has deleted the directory. Its parent is not created: without it, the server has no data directory any more.
            let _may_exist = self.storage.create_dir(parent_of(&self.path));
            replaced = self.storage.replace(&self.path, encoded.as_bytes());
        }
        replaced.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot write the cursor {}: {error}", self.path.display()))
        })
    }
}

/// The furthest place of any cursor in a directory, by lane. With it a lane never uses a position again, even if its files were
/// removed.
pub(crate) fn furthest(storage: &dyn Storage, directory: &Path) -> BTreeMap<u32, LanePlace> {
    let mut furthest: BTreeMap<u32, LanePlace> = BTreeMap::new();
    for name in storage.list(directory).unwrap_or_default() {
        if !name.ends_with(SUFFIX) {
            continue;
        }
        let text = storage.read(&directory.join(name)).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        for place in text.and_then(|text| Cursor::decode(&text)).unwrap_or_default().places {
            if place.position > RECOVERED_MAX || place.record > RECOVERED_MAX {
                continue;
            }
            let known = furthest.entry(place.lane).or_insert(place);
            if known.position < place.position {
                *known = place;
            }
        }
    }
    furthest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Cursor {
        Cursor {
            places: vec![
                LanePlace { lane: 0, position: 1 << 40, record: 7 },
                LanePlace { lane: 3, position: u64::MAX, record: 0 },
            ],
            delivered: 12,
            dropped: BTreeMap::from([("damaged".to_owned(), 3), ("oldest one".to_owned(), 4)]),
            filtered: 5,
            output: "inode 5 length 17".to_owned(),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let cursor = example();
        assert_eq!(Cursor::decode(&cursor.encode("file:a\nb")), Some(cursor));
        assert_eq!(Cursor::decode(&Cursor::default().encode("")), Some(Cursor::default()));
    }

    #[test]
    fn a_renamed_sink_has_its_cursor_under_the_new_name_alone() {
        let directory = tempfile::tempdir().unwrap();
        let storage = || Arc::new(crate::DiskStorage);
        let store = |name| CursorStore::new(storage(), directory.path(), name).unwrap();
        let possible = Cursor { delivered: 7, ..Cursor::default() };
        let (old, taken) = (store("old"), store("taken"));
        old.commit(&possible).unwrap();
        taken.commit(&Cursor::default()).unwrap();
        old.set_paused(true).unwrap();
        assert_eq!(old.rename("taken", &possible).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(
            (old.load().unwrap(), taken.load().unwrap()),
            (Some(possible.clone()), Some(Cursor::default()))
        );

        let new = old.rename("new", &possible).unwrap();
        assert!(!old.is_paused() && old.is_missing());
        for found in [&new, &store("old"), &store("new")] {
            assert_eq!(
                (found.sink(), found.load().unwrap(), found.is_paused()),
                ("new", Some(possible.clone()), true)
            );
        }
        assert!(new.rename("taken", &possible).is_err());
        let newer = new.rename("newer", &possible).unwrap();
        assert_eq!(
            (store("old").sink(), newer.earlier()),
            ("newer", &["new".to_owned(), "old".to_owned()][..])
        );
        // Back, but not to a name that leads on to another one.
        assert!(newer.rename("old", &possible).is_err());
        newer.rename("new", &possible).unwrap();
        // The name in between may be in the configuration by now.
        for name in ["old", "new", "newer"] {
            let found = store(name);
            assert_eq!(
                (found.sink(), found.load().unwrap(), found.is_paused()),
                ("new", Some(possible.clone()), true)
            );
        }
        assert!(newer.is_missing() && !newer.is_paused());
        // There and back once more, and on.
        store("new").rename("newer", &possible).unwrap();
        store("newer").rename("newest", &possible).unwrap();
        for name in ["old", "new", "newer", "newest"] {
            assert_eq!((store(name).sink(), store(name).load().unwrap()), ("newest", Some(possible.clone())));
        }
    }

    /// The mark is there, and nothing has moved.
    #[test]
    fn a_rename_that_was_killed_is_finished() {
        let possible = Cursor { delivered: 7, ..Cursor::default() };
        for name in ["new", "old"] {
            let directory = tempfile::tempdir().unwrap();
            let store =
                |name| CursorStore::new(Arc::new(crate::DiskStorage), directory.path(), name).unwrap();
            store("old").commit(&possible).unwrap();
            store("old").set_paused(true).unwrap();
            let mark = renames::free_path(&crate::DiskStorage, directory.path(), "old").unwrap();
            renames::write(&crate::DiskStorage, &mark, "old", "new").unwrap();
            let found = store(name);
            assert_eq!(
                (found.sink(), found.load().unwrap(), found.is_paused()),
                ("new", Some(possible.clone()), true)
            );
            found.rename("old", &possible).unwrap();
            // A kill right after the mark was turned around leaves it in the file that it was in.
            let [old, new] =
                ["old", "new"].map(|name| directory.path().join(file_name_of(name) + ".renamed"));
            std::fs::rename(&new, &old).unwrap();
            assert_eq!((store("new").sink(), store("old").sink()), ("old", "old"));
            assert!(new.exists() && !old.exists());
        }
    }

    #[test]
    fn numbers_that_no_spool_comes_to_are_damage() {
        let directory = tempfile::tempdir().unwrap();
        let store = CursorStore::new(Arc::new(crate::DiskStorage), directory.path(), "file:x").unwrap();
        let place = |position, record| vec![LanePlace { lane: 0, position, record }];
        let possible = Cursor { places: place(RECOVERED_MAX, 7), delivered: 7, ..Cursor::default() };
        store.commit(&possible).unwrap();
        assert_eq!(store.load().unwrap(), Some(possible));
        let dropped = BTreeMap::from([("damaged".to_owned(), u64::MAX)]);
        for cursor in [
            Cursor { places: place(u64::MAX, 0), ..Cursor::default() },
            Cursor { places: place(0, u64::MAX), ..Cursor::default() },
            Cursor { delivered: u64::MAX, ..Cursor::default() },
            Cursor { filtered: u64::MAX, ..Cursor::default() },
            Cursor { dropped, delivered: 1, ..Cursor::default() },
        ] {
            store.commit(&cursor).unwrap();
            assert_eq!(store.load().unwrap(), None, "{cursor:?}");
        }
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let text = example().encode("file:x");
        for index in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[index] ^= 1;
            let read = String::from_utf8(bytes).ok().and_then(|text| Cursor::decode(&text));
            assert_eq!(read, None, "byte {index}");
        }
    }
}
