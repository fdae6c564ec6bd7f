//! Objects as files of a directory.
//!
//! An object is written beside its place, synced, and linked to its name, which fails if the name exists. So no name stands for a part
//! of an object, also after a power failure.
//!
//! Not by object_store's `LocalFileSystem`: it works on tokio's blocking threads, which no sink uses (see `async_sink`).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::created::Created;
use super::footer::FOOTER_BYTES;

/// Folders that are remembered as synced: those of a year of days, with some lanes. With more of them, all are synced once again.
const ANCHORED_MAX: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(super) struct Directory {
    root: PathBuf,
    /// Folders of lanes that a power failure leaves where they are: this process has synced all above them.
    anchored: Mutex<BTreeSet<PathBuf>>,
}

impl Directory {
    pub(super) fn new(root: PathBuf) -> Directory {
        Directory { root, anchored: Mutex::default() }
    }

    pub(super) fn create(&self, name: &str, bytes: &[u8]) -> io::Result<Created> {
        let path = self.root.join(name);
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(|error| named(folder, &error))?;
        // By chance: another process that still writes, on this machine or another, has a file of its own.
        let mut chance = [0; 8];
        getrandom::fill(&mut chance).map_err(io::Error::other)?;
        let staged = path.with_extension(format!("{:016x}.tmp", u64::from_be_bytes(chance)));
        let linked = write(&staged, bytes).and_then(|()| link(&staged, &path));
        let removed = fs::remove_file(&staged);
        let created = linked.map_err(|error| named(&path, &error))?;
        removed.map_err(|error| named(&staged, &error))?;
        // An object that exists may have been made by a process that was killed before it synced the folder.
        sync(folder).map_err(|error| named(folder, &error))?;
        self.anchor(folder)?;
        Ok(created)
    }

    /// Syncs what is above a folder, whoever has made it: a process may have been killed before it did, or a sync may have failed.
    fn anchor(&self, folder: &Path) -> io::Result<()> {
        let mut anchored = self.anchored.lock().unwrap_or_else(PoisonError::into_inner);
        if anchored.contains(folder) {
            return Ok(());
        }
        for above in folder.ancestors().skip(1) {
            // A relative path ends so.
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            match sync(above) {
                // Only who may read a folder can sync it.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
                done => done.map_err(|error| named(above, &error))?,
            }
        }
        if anchored.len() >= ANCHORED_MAX {
            anchored.clear();
        }
        anchored.insert(folder.to_owned());
        Ok(())
    }

    pub(super) fn end(&self, name: &str) -> io::Result<Vec<u8>> {
        let path = self.root.join(name);
        end_of(&path).map_err(|error| named(&path, &error))
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn link(staged: &Path, path: &Path) -> io::Result<Created> {
    match fs::hard_link(staged, path) {
        Ok(()) => Ok(Created::New),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Created::Exists),
        Err(error) => Err(error),
    }
}

fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(FOOTER_BYTES as u64)))?;
    let mut end = Vec::with_capacity(FOOTER_BYTES);
    file.take(FOOTER_BYTES as u64).read_to_end(&mut end)?;
    Ok(end)
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_created_once_and_nothing_is_left_beside_it() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::new(place.path().join("a/b"));
        let whole = vec![b'x'; 1000];
        assert_eq!(directory.create("lane-0/1", &whole).unwrap(), Created::New);
        assert_eq!(directory.create("lane-0/1", b"other").unwrap(), Created::Exists);
        assert_eq!(fs::read(directory.root.join("lane-0/1")).unwrap(), whole);
        assert_eq!(directory.end("lane-0/1").unwrap(), vec![b'x'; FOOTER_BYTES]);
        assert_eq!(fs::read_dir(directory.root.join("lane-0")).unwrap().count(), 1);
        let error = directory.end("lane-0/2").unwrap_err().to_string();
        assert!(error.contains("lane-0/2"), "{error}");
    }
}
