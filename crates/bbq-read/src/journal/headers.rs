//! What the first bytes of the journal's files say: which sequence number ids there are, and from which to which number.
//!
//! ```text
//!   0   8  "LPKSHHRH"             the format is documented: <https://systemd.io/JOURNAL_FILE_FORMAT/>
//!  72  16  sequence number id
//! 152   8  entries
//! 160   8  number of the last entry
//! 168   8  number of the first entry
//! 184   8  time of the first entry, microseconds since 1970-01-01 UTC
//! 192   8  time of the last entry
//! ```
//!
//! Invariant: it is only a hint. journalctl reads the entries.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const HEADER_BYTES: usize = 208;
const SIGNATURE: &[u8] = b"LPKSHHRH";
/// Files that are looked at: journald keeps at most 100 of a journal.
const FILES_MAX: usize = 10_000;

/// A file of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) seqnum_id: u128,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) first_us: u64,
    pub(crate) last_us: u64,
}

/// What is in the directories of a journal.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    /// Files with entries.
    pub(crate) all: Vec<Header>,
    pub(crate) files: u64,
    /// A file or directory without the right to read it.
    pub(crate) denied: Option<PathBuf>,
}

impl Headers {
    /// Reads the first bytes of the files in these directories, and of those in their directories with the name of a machine.
    pub(crate) fn of(directories: &[PathBuf]) -> Headers {
        let mut found = Headers::default();
        for directory in directories {
            found.add_directory(directory, true);
        }
        found
    }

    fn add_directory(&mut self, directory: &Path, has_machines: bool) {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => return self.note(directory, &error),
        };
        for entry in entries.filter_map(Result::ok) {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if name.ends_with(".journal") || name.ends_with(".journal~") {
                if self.files < FILES_MAX as u64 {
                    self.add_file(&path);
                }
            } else if has_machines && is_of_machine(&name) {
                self.add_directory(&path, false);
            }
        }
    }

    fn add_file(&mut self, path: &Path) {
        let mut bytes = [0; HEADER_BYTES];
        match crate::opening::open(path).and_then(|file: File| file.read_exact_at(&mut bytes, 0)) {
            Ok(()) => {
                self.files += 1;
                self.all.extend(parse(&bytes));
            }
            Err(error) => self.note(path, &error),
        }
    }

    /// A file may be deleted, or not be written yet.
    fn note(&mut self, path: &Path, error: &io::Error) {
        if error.kind() == io::ErrorKind::PermissionDenied {
            self.denied.get_or_insert_with(|| path.to_owned());
        }
    }
}

/// 32 hexadecimal digits, and perhaps a namespace.
fn is_of_machine(name: &str) -> bool {
    let id = name.split('.').next().unwrap_or_default();
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
    let number = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let seqnum_id = u128::from_be_bytes(*bytes.get(72..)?.first_chunk()?);
    let has_entries = bytes.starts_with(SIGNATURE) && number(152)? > 0;
    has_entries.then_some(Header {
        seqnum_id,
        last: number(160)?,
        first: number(168)?,
        first_us: number(184)?,
        last_us: number(192)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(entries: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(SIGNATURE);
        bytes[72..88].copy_from_slice(&7u128.to_be_bytes());
        for (at, number) in [(152, entries), (160, 9), (168, 4), (184, 100), (192, 200)] {
            bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(number));
        }
        bytes
    }

    #[test]
    fn files_are_found_in_the_directories_of_machines() {
        let root = tempfile::tempdir().unwrap();
        let machine = root.path().join("0123456789abcdef0123456789abcdef.space");
        fs::create_dir_all(machine.join("deeper")).unwrap();
        fs::create_dir_all(root.path().join("remote")).unwrap();
        fs::write(root.path().join("a.journal"), header(2)).unwrap();
        fs::write(machine.join("system@x.journal~"), header(0)).unwrap();
        fs::write(machine.join("short.journal"), "LPKSHHRH").unwrap();
        fs::write(machine.join("deeper/b.journal"), header(2)).unwrap();
        fs::write(root.path().join("remote/b.journal"), header(2)).unwrap();
        fs::write(root.path().join("b.log"), header(2)).unwrap();
        let found = Headers::of(&[root.path().to_owned(), root.path().join("none")]);
        assert_eq!(found.all, [Header { seqnum_id: 7, first: 4, last: 9, first_us: 100, last_us: 200 }]);
        assert_eq!((found.files, found.denied), (2, None));
    }

    #[test]
    fn another_format_is_no_journal() {
        let mut bytes = header(1);
        assert!(parse(&bytes).is_some());
        bytes[0] = b'X';
        assert_eq!(parse(&bytes), None);
    }
}
