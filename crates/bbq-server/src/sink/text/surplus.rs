//! Lines at the end of a file that its cursor does not cover, and that the spool cannot write again: the data directory is an older copy
//! of the one that the file was written from, or another program has written to the file. They are kept in a file beside it before the end
//! is cut off.
//!
//! After an ordinary crash, each line behind the cursor is a message of the spool behind the cursor, and nothing is kept. Numbers of lines
//! and messages do not tell the two apart: an older copy may have as many messages behind its cursor, which are others. So the lines
//! themselves are compared.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use bbq_storage::{NodeKind, OpenMode, Storage, StorageFile, parent_of};

use super::file::Remembered;
use super::output::named;

/// Bytes of one read: a larger one would cost no less.
const READ_BYTES: usize = 1024 * 1024;
/// Different lines that are compared at a time, so that their hashes stay in ten megabytes: as many as a sink writes in a fraction of a second.
/// For each further part the spool is read once more.
const LINES_COMPARED_MAX: usize = 256 * 1024;

/// Passes the text that the spool can write again to the function, in pieces of whole messages: of each lane at least so many bytes, if it
/// has them.
pub(in crate::sink) type Again<'a> = dyn FnMut(u64, &mut dyn FnMut(&[u8])) -> io::Result<()> + 'a;

/// Lines that were kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sink) struct Surplus {
    /// Those that the spool does not have.
    pub(in crate::sink) lines: u64,
    /// All of the end of the file.
    pub(in crate::sink) kept_in: PathBuf,
}

/// Copies the end of a file, durably, if it has lines that `again` does not write again. `state` is that of the cursor. The name says which
/// part of the file it is, so a copy that a crash interrupted is made once more under the same name.
pub(in crate::sink) fn keep(
    storage: &dyn Storage,
    path: &Path,
    state: &str,
    again: &mut Again<'_>,
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
    let lines = count_missing(&*file, length..end, again).map_err(told)?;
    if lines == 0 {
        return Ok(None);
    }
    let mut kept_in = path.as_os_str().to_owned();
    kept_in.push(format!(".beyond-cursor-{length}-{end}"));
    let kept_in = PathBuf::from(kept_in);
    copy(storage, &*file, length..end, &kept_in).map_err(|error| named(&kept_in, &error))?;
    Ok(Some(Surplus { lines, kept_in }))
}

/// Lines in a part of a file that are not written again. A line that is there twice, far apart, may count as written again if it is once.
fn count_missing(file: &dyn StorageFile, part: Range<u64>, again: &mut Again<'_>) -> io::Result<u64> {
    let bytes_max = part.end - part.start;
    let (mut lines, mut wanted, mut missing) = (LineHashes::default(), HashMap::new(), 0);
    each_piece(file, part, |_, bytes| {
        lines.feed(bytes, &mut |hash| *wanted.entry(hash).or_default() += 1);
        if wanted.len() >= LINES_COMPARED_MAX {
            missing += not_again(&mut wanted, bytes_max, again)?;
        }
        Ok(())
    })?;
    Ok(missing + not_again(&mut wanted, bytes_max, again)?)
}

/// How many of these lines, by their hashes, are not written again. Leaves none of them.
fn not_again(wanted: &mut HashMap<u64, u64>, bytes_max: u64, again: &mut Again<'_>) -> io::Result<u64> {
    if wanted.is_empty() {
        return Ok(0);
    }
    again(bytes_max, &mut |text| {
        LineHashes::default().feed(text, &mut |hash| {
            if let Some(times) = wanted.get_mut(&hash) {
                *times = times.saturating_sub(1);
            }
        });
    })?;
    Ok(wanted.drain().map(|(_, times)| times).sum())
}

/// Cuts text, which may come in pieces, into lines, and hashes them (FNV-1a).
///
/// A line without an end, and one with a zero byte, are no lines: a crash has torn them. Where a file was not written when the power failed,
/// it has zeros.
struct LineHashes {
    hash: u64,
    has_zero: bool,
}

impl Default for LineHashes {
    fn default() -> LineHashes {
        LineHashes { hash: 0xcbf2_9ce4_8422_2325, has_zero: false }
    }
}

impl LineHashes {
    fn feed(&mut self, text: &[u8], line: &mut dyn FnMut(u64)) {
        for byte in text {
            match byte {
                b'\n' => {
                    let LineHashes { hash, has_zero } = std::mem::take(self);
                    if !has_zero {
                        line(hash);
                    }
                }
                byte => {
                    self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
                    self.has_zero |= *byte == 0;
                }
            }
        }
    }
}

fn copy(storage: &dyn Storage, file: &dyn StorageFile, part: Range<u64>, to: &Path) -> io::Result<()> {
    let copy = storage.open(to, OpenMode::Empty)?;
    let start = part.start;
    each_piece(file, part, |offset, bytes| copy.write_all_at(offset - start, bytes))?;
    copy.sync_all()?;
    storage.sync_dir(parent_of(to))
}

fn each_piece(
    file: &dyn StorageFile,
    part: Range<u64>,
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
        let keep = |length: u64, again: &str| {
            let mut again = |_, emit: &mut dyn FnMut(&[u8])| {
                again.split_inclusive('\n').for_each(|text| emit(text.as_bytes()));
                Ok(())
            };
            keep(&DiskStorage, &path, &format!("inode {inode} length {length}"), &mut again).unwrap()
        };
        assert_eq!((keep(4, "three\nfour\ntwo\n"), keep(14, ""), keep(17, "")), (None, None, None));
        // As many messages, which are others.
        let kept = keep(4, "four\ntwo\ntwo\n").unwrap();
        assert_eq!((kept.lines, fs::read_to_string(&kept.kept_in).unwrap().as_str()), (1, "two\nthree\nfo"));
        assert_eq!(
            keep(4, "").map(|kept| (kept.lines, kept.kept_in)),
            Some((2, kept.kept_in)),
            "the same name"
        );
        let mut nothing = |_, _: &mut dyn FnMut(&[u8])| Ok(());
        let none = directory.path().join("none");
        for (path, state) in [(&path, "inode 1 length 4"), (&none, "inode 1 length 4")] {
            assert_eq!(super::keep(&DiskStorage, path, state, &mut nothing).unwrap(), None);
        }
    }

    #[test]
    fn what_a_power_failure_has_torn_is_no_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        fs::write(&path, "one\ntw\0\0\0\0ree\nfour\n").unwrap();
        let state = format!("inode {} length 4", DiskStorage.inode(&path).unwrap());
        let mut again = |_, emit: &mut dyn FnMut(&[u8])| {
            emit(b"two\nthree\nfour\n");
            Ok(())
        };
        assert_eq!(super::keep(&DiskStorage, &path, &state, &mut again).unwrap(), None);
    }
}
