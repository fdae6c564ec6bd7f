//! Which file is which stream. One small file per reader, replaced as a whole:
//!
//! ```text
//! bbq readers 1 <crc>                           see bbq_spool::sealed
//! <stream> <device> <inode> <birth_ns> <prefix bytes> <prefix crc> <start> <path, %XX for other bytes than letters>
//! ```
//!
//! Positions are not here: the server's table of streams has them. `start` is the byte at which reading began, as `start=end` says.
//! The path is for people, and to find a file that was renamed; it does not decide which file is which.
//!
//! Invariant: an entry is durable before the first batch of its stream is handed over. So a stream that the server knows is found again,
//! and the only way to read a file twice is to lose this file.

use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bbq_storage::Storage;
use bbq_wire::StreamId;

use crate::catalog_file::{CatalogFile, CatalogKind, Loaded};
use crate::identity::{FileKey, Prefix};

static KIND: CatalogKind<Vec<Entry>> = CatalogKind { name: "readers", suffix: ".catalog", parse };

/// A file and its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) stream: StreamId,
    pub(crate) key: FileKey,
    pub(crate) prefix: Prefix,
    pub(crate) start: u64,
    pub(crate) path: PathBuf,
}

impl Entry {
    pub(crate) fn view(&self) -> EntryView<'_> {
        let Entry { stream, key, prefix, start, path } = self;
        EntryView { stream: *stream, key: *key, prefix: *prefix, start: *start, path }
    }
}

/// The catalog of a reader of files on disk.
pub(crate) struct Catalog(CatalogFile);

impl Catalog {
    /// The catalog of the reader with this name. The directory is created if it is missing.
    pub(crate) fn open(
        directory: &Path,
        reader: &str,
        storage: Arc<dyn Storage>,
    ) -> io::Result<(Catalog, Loaded<Vec<Entry>>)> {
        let (file, loaded) = KIND.open(directory, reader, storage)?;
        Ok((Catalog(file), loaded))
    }

    /// Replaces the catalog; durable on return.
    pub(crate) fn save<'a>(&self, entries: impl Iterator<Item = EntryView<'a>>) -> io::Result<()> {
        let mut body = String::new();
        entries.for_each(|entry| entry.write(&mut body));
        self.0.replace(&body)
    }
}

/// An entry whose path is borrowed.
pub(crate) struct EntryView<'a> {
    pub(crate) stream: StreamId,
    pub(crate) key: FileKey,
    pub(crate) prefix: Prefix,
    pub(crate) start: u64,
    pub(crate) path: &'a Path,
}

impl EntryView<'_> {
    fn write(&self, out: &mut String) {
        let EntryView { stream, key, prefix, start, path } = self;
        let FileKey { device, inode, birth_ns } = key;
        let Prefix { bytes, crc } = prefix;
        let _infallible = write!(out, "{stream} {device} {inode} {birth_ns} {bytes} {crc:08x} {start} ");
        for byte in path.as_os_str().as_bytes() {
            match byte {
                b'%' | ..=b' ' | 0x7f.. => {
                    let _infallible = write!(out, "%{byte:02x}");
                }
                byte => out.push(char::from(*byte)),
            }
        }
        out.push('\n');
    }
}

/// The streams of all catalogs of files in a directory. A damaged catalog has none.
///
/// # Errors
/// A catalog cannot be read now.
pub(crate) fn catalogued(directory: &Path, storage: &dyn Storage) -> io::Result<Vec<StreamId>> {
    Ok(KIND.all(directory, storage)?.into_iter().flatten().map(|entry| entry.stream).collect())
}

fn parse(body: &str) -> Option<Vec<Entry>> {
    body.lines().map(parse_entry).collect()
}

fn parse_entry(line: &str) -> Option<Entry> {
    let mut fields = line.splitn(8, ' ');
    let stream = u128::from_str_radix(fields.next()?, 16).ok()?;
    let mut number = || fields.next()?.parse().ok();
    let key = FileKey { device: number()?, inode: number()?, birth_ns: number()? };
    let bytes = u32::try_from(number()?).ok()?;
    let crc = u32::from_str_radix(fields.next()?, 16).ok()?;
    let start = fields.next()?.parse().ok()?;
    Some(Entry {
        stream: StreamId(stream.to_be_bytes()),
        key,
        prefix: Prefix { bytes, crc },
        start,
        path: parse_path(fields.next()?)?,
    })
}

fn parse_path(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, behind)) = rest.split_once('%') {
        bytes.extend_from_slice(plain.as_bytes());
        let (code, behind) = behind.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        rest = behind;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use bbq_storage::DiskStorage;

    use super::*;

    fn entry(path: &[u8]) -> Entry {
        Entry {
            stream: StreamId([7; 16]),
            key: FileKey { device: 1, inode: u64::MAX, birth_ns: 3 },
            prefix: Prefix { bytes: 1024, crc: 0xdead_beef },
            start: 9,
            path: PathBuf::from(OsString::from_vec(path.to_vec())),
        }
    }

    #[test]
    fn any_path_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let open = || Catalog::open(directory.path(), "file:/a*", Arc::clone(&storage)).unwrap();
        let (catalog, loaded) = open();
        assert_eq!(loaded, Loaded::First);
        let entries: Vec<Entry> =
            [&b"/var/log/a b%20.log"[..], b"/\n\xff", b"/caf\xc3\xa9"].map(entry).into();
        catalog.save(entries.iter().map(Entry::view)).unwrap();
        assert_eq!(open().1, Loaded::Known(entries));
        assert_eq!(catalogued(directory.path(), &*storage).unwrap().len(), 3);
        assert!(catalogued(&directory.path().join("none"), &*storage).unwrap().is_empty());
        std::fs::create_dir(directory.path().join("x.catalog")).unwrap();
        assert!(catalogued(directory.path(), &*storage).is_err(), "what it has is not known");
    }
}
