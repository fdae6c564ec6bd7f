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

use bbq_sink::Surplus;
use bbq_storage::{NodeKind, OpenMode, Storage, StorageFile, parent_of};

use super::file::Remembered;
use super::output::{lock, named};

/// Bytes of one read: a larger one would cost no less.
const READ_BYTES: usize = 1024 * 1024;
/// Different lines that are compared at a time, so that their hashes stay in ten megabytes: as many as a sink writes in a fraction of a second.
/// For each further part the spool is read once more.
const LINES_COMPARED_MAX: usize = 256 * 1024;

/// Copies of parts of a file with the same place and length, which are different: more of them come from no crash.
const COPIES_MAX: u32 = 100;
/// The end of the name of a copy that is not complete.
const PARTIAL: &str = ".partial";

/// Passes the text that the spool can write again to the function, in pieces of whole messages: of each lane at least so many bytes, if it
/// has them.
type Again<'a> = dyn FnMut(u64, &mut dyn FnMut(&[u8])) -> io::Result<()> + 'a;

/// Copies the end of a file, durably, if it has lines that `again` does not write again. `state` is that of the cursor. The name says which
/// part of the file it is. A copy has its name when it is durable, and is never written again: if the power fails while the end is cut off, the
/// file may have its length still, and zeros in place of lines.
pub(super) fn keep(
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
    // Whoever holds the lock still writes to the file, and nothing of it is cut off: it cannot be opened.
    lock(&*file, path)?;
    let part = length..end;
    let (kept_in, earlier) = find_copy(storage, path, &*file, &part)?;
    let lines = match &earlier {
        Some(earlier) => count_missing(&**earlier, 0..end - length, again),
        None => count_missing(&*file, part.clone(), again),
    };
    let lines = lines.map_err(told)?;
    if lines == 0 {
        return Ok(None);
    }
    if earlier.is_none() {
        copy(storage, &*file, part, &kept_in).map_err(|error| named(&kept_in, &error))?;
    }
    Ok(Some(Surplus { lines, kept_in }))
}

/// An earlier copy of a part of the file, or a name for a new one.
fn find_copy(
    storage: &dyn Storage,
    path: &Path,
    file: &dyn StorageFile,
    part: &Range<u64>,
) -> io::Result<(PathBuf, Option<Box<dyn StorageFile>>)> {
    for number in 1..=COPIES_MAX {
        let name = name_of_copy(path, part, number);
        match storage.kind(&name) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((name, None)),
            Err(error) => return Err(named(&name, &error)),
        }
        let earlier = storage.open(&name, OpenMode::Existing).map_err(|error| named(&name, &error))?;
        if is_copy(&*earlier, file, part.clone()).map_err(|error| named(path, &error))? {
            return Ok((name, Some(earlier)));
        }
    }
    Err(io::Error::other(format!(
        "{} has {COPIES_MAX} copies of its end, such as {}; move them elsewhere",
        path.display(),
        name_of_copy(path, part, 1).display()
    )))
}

fn name_of_copy(path: &Path, part: &Range<u64>, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".beyond-cursor-{}-{}", part.start, part.end));
    if number > 1 {
        name.push(format!("-{number}"));
    }
    PathBuf::from(name)
}

/// Whether an earlier copy has this part of the file. The file may have zeros since.
fn is_copy(earlier: &dyn StorageFile, file: &dyn StorageFile, part: Range<u64>) -> io::Result<bool> {
    let (start, mut is_same) = (part.start, earlier.len()? == part.end - part.start);
    let mut kept = vec![0; READ_BYTES];
    each_piece(file, part, |offset, bytes| {
        let kept = &mut kept[..bytes.len()];
        is_same = is_same
            && earlier.read_at(offset - start, kept)? == bytes.len()
            && bytes.iter().zip(&*kept).all(|(byte, kept)| byte == kept || *byte == 0);
        Ok(())
    })?;
    Ok(is_same)
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

/// Makes the copy under another name first, which a crash may leave.
fn copy(storage: &dyn Storage, file: &dyn StorageFile, part: Range<u64>, to: &Path) -> io::Result<()> {
    let mut partial = to.as_os_str().to_owned();
    partial.push(PARTIAL);
    let partial = Path::new(&partial);
    let copy = storage.open(partial, OpenMode::Empty)?;
    let start = part.start;
    each_piece(file, part, |offset, bytes| copy.write_all_at(offset - start, bytes))?;
    copy.sync_all()?;
    storage.rename(partial, to)?;
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
        // The power failed while the end was cut off.
        fs::write(&path, "one\ntwo\n\0\0\0\0e\nfo").unwrap();
        let kept = keep(4, "").unwrap();
        assert_eq!((kept.lines, fs::read_to_string(&kept.kept_in).unwrap().as_str()), (2, "two\nthree\nfo"));
        // Other lines, of the same length.
        fs::write(&path, "one\nsix\nthree\nfo").unwrap();
        let other = keep(4, "three\n").unwrap();
        assert_eq!(
            (other.lines, fs::read_to_string(&other.kept_in).unwrap().as_str()),
            (1, "six\nthree\nfo")
        );
        assert_eq!(fs::read_to_string(&kept.kept_in).unwrap(), "two\nthree\nfo");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3, "none is left half made");
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
