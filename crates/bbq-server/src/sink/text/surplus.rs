//! Lines at the end of a file that its cursor does not cover, and that the spool cannot write again: the data directory is an older copy
//! of the one that the file was written from, or another program has written to the file. They are kept in a file beside it before the end
//! is cut off.
//!
//! After an ordinary crash, each line behind the cursor is a message of the spool behind the cursor. So there are at most as many lines as
//! such messages, and nothing is kept.

use std::io;
use std::path::{Path, PathBuf};

use bbq_storage::{NodeKind, OpenMode, Storage, StorageFile, parent_of};
use memchr::memchr_iter;

use super::file::Remembered;
use super::output::named;

/// Bytes of one read: a larger one would cost no less.
const READ_BYTES: usize = 1024 * 1024;

/// Lines that were kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sink) struct Surplus {
    pub(in crate::sink) lines: u64,
    pub(in crate::sink) kept_in: PathBuf,
}

/// Copies the end of a file, durably, if the spool has fewer messages (`queued`) behind the cursor, whose state is `state`, than the file
/// has lines. The name says which part of the file it is, so a copy that a crash interrupted is made once more under the same name.
pub(in crate::sink) fn keep(
    storage: &dyn Storage,
    path: &Path,
    state: &str,
    queued: u64,
) -> io::Result<Option<Surplus>> {
    let Some(Remembered { inode, length }) = Remembered::parse(state) else { return Ok(None) };
    if !matches!(storage.kind(path), Ok(NodeKind::File)) {
        return Ok(None);
    }
    let told = |error: io::Error| named(path, &error);
    let file = storage.open(path, OpenMode::Existing).map_err(told)?;
    let end = file.len().map_err(told)?;
    if file.inode().map_err(told)? != inode || end <= length {
        return Ok(None);
    }
    let lines = count_lines(&*file, length..end).map_err(told)?;
    if lines <= queued {
        return Ok(None);
    }
    let mut kept_in = path.as_os_str().to_owned();
    kept_in.push(format!(".beyond-cursor-{length}-{end}"));
    let kept_in = PathBuf::from(kept_in);
    copy(storage, &*file, length..end, &kept_in).map_err(|error| named(&kept_in, &error))?;
    Ok(Some(Surplus { lines, kept_in }))
}

/// Lines in a part of a file. One without an end counts, too.
fn count_lines(file: &dyn StorageFile, part: std::ops::Range<u64>) -> io::Result<u64> {
    let (mut lines, mut last) = (0, b'\n');
    each_piece(file, part, |_, bytes| {
        lines += memchr_iter(b'\n', bytes).count() as u64;
        last = bytes.last().copied().unwrap_or(last);
        Ok(())
    })?;
    Ok(lines + u64::from(last != b'\n'))
}

fn copy(
    storage: &dyn Storage,
    file: &dyn StorageFile,
    part: std::ops::Range<u64>,
    to: &Path,
) -> io::Result<()> {
    let copy = storage.open(to, OpenMode::Empty)?;
    let start = part.start;
    each_piece(file, part, |offset, bytes| copy.write_all_at(offset - start, bytes))?;
    copy.sync_all()?;
    storage.sync_dir(parent_of(to))
}

fn each_piece(
    file: &dyn StorageFile,
    part: std::ops::Range<u64>,
    mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let mut at = part.start;
    while at < part.end {
        let wanted = usize::try_from(part.end - at).unwrap_or(READ_BYTES).min(READ_BYTES);
        let read = file.read_at(at, &mut buffer[..wanted])?;
        if read == 0 {
            break;
        }
        take(at, &buffer[..read])?;
        at += read as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bbq_storage::DiskStorage;

    use super::*;

    #[test]
    fn only_lines_that_cannot_be_written_again_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        fs::write(&path, "one\ntwo\nthree\nfo").unwrap();
        let inode = DiskStorage.inode(&path).unwrap();
        let keep = |length: u64, queued: u64| {
            keep(&DiskStorage, &path, &format!("inode {inode} length {length}"), queued).unwrap()
        };
        assert_eq!((keep(4, 3), keep(16, 0), keep(17, 0)), (None, None, None));
        let kept = keep(4, 2).unwrap();
        assert_eq!((kept.lines, fs::read_to_string(&kept.kept_in).unwrap().as_str()), (3, "two\nthree\nfo"));
        assert_eq!(keep(4, 0), Some(kept), "the same under the same name");
        assert_eq!(super::keep(&DiskStorage, &path, "inode 1 length 4", 0).unwrap(), None);
        assert_eq!(
            super::keep(&DiskStorage, &directory.path().join("none"), "inode 1 length 4", 0).unwrap(),
            None
        );
    }
}
