//! Opens a file that is known by its identity, also if it has another name by now.

use std::fs::File;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::glob::is_missing;
use crate::identity::{FileKey, Look};

/// Opens a file for reading. A pipe, which could be put in place of it, is not waited for.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Opens the file with this identity at its path, or under another name in the same directory.
pub(crate) fn open_known(path: &Path, key: FileKey) -> io::Result<Option<File>> {
    if let Some(file) = open_if(path, key)? {
        return Ok(Some(file));
    }
    name_of(path, key).map_or(Ok(None), |renamed| open_if(&renamed, key))
}

/// Another name of the file in the directory of this path; `None` if it has none there.
pub(crate) fn name_of(path: &Path, key: FileKey) -> Option<PathBuf> {
    directories_of(path).into_iter().find_map(|directory| name_in(&directory, key))
}

/// The directories in which a renamed file can be.
pub(crate) fn directories_of(path: &Path) -> Vec<PathBuf> {
    let here = path.parent().map(Path::to_owned);
    // A link leads to the newest file, and the older ones are beside that.
    let behind_link = std::fs::canonicalize(path).ok().and_then(|real| Some(real.parent()?.to_owned()));
    let mut directories: Vec<PathBuf> = [here, behind_link].into_iter().flatten().collect();
    directories.dedup();
    directories
}

/// Whether the file is in none of its directories any more. Of a directory that cannot be listed, or is on another file system, that is not
/// known: the file may be back later, and must not be read again then.
pub(crate) fn is_gone(path: &Path, key: FileKey) -> bool {
    let is_without = |directory: &Path| -> io::Result<bool> {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            // The inode may be that of another file by now.
            if entry.ino() == key.inode && Look::at_path(&entry.path())?.key == key {
                return Ok(false);
            }
        }
        Ok(Look::at_path(directory)?.key.device == key.device)
    };
    directories_of(path).iter().all(|directory| is_without(directory).unwrap_or(false))
}

fn name_in(directory: &Path, key: FileKey) -> Option<PathBuf> {
    let mut entries = std::fs::read_dir(directory).ok()?.filter_map(Result::ok);
    let found = entries.find(|entry| {
        entry.ino() == key.inode && Look::at_path(&entry.path()).is_ok_and(|look| look.key == key)
    })?;
    Some(found.path())
}

fn open_if(path: &Path, key: FileKey) -> io::Result<Option<File>> {
    match open(path) {
        Ok(file) => Ok((Look::at_file(&file)?.key == key).then_some(file)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
