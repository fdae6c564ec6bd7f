//! The folders of objects, such as `2026/11/29`: by when the first message of an object was received.
//!
//! A chain has no folders: where an object stands in it must not depend on a clock. So with folders, the name in the chain is that of a pointer,
//! which says in which folder the object of this name is. It is written first, and only if nothing has its name:
//!
//! ```text
//! PREFIX/<id>/lane-0/00000000000000000000.ndjson.zst                  a pointer: 2026/11/29
//! PREFIX/2026/11/29/<id>/lane-0/00000000000000000000.ndjson.zst       the object
//! ```
//!
//! Whoever comes later, after a kill on another day or with a copy of the data directory, follows the pointer, and meets the object that
//! exists. The same holds if the folder was set anew, or left out, in between.
//!
//! ```text
//! 5b 2a 4d 18   length (u32, little-endian)   "bbq folder 1 <folder>", with spaces
//! ```
//!
//! Like the footer of an object, a pointer is a skippable frame of zstd: who unpacks it gets nothing.

use std::io;
use std::sync::Arc;

use bbq_format::names::{Field, NameRules, NameTemplate};

use super::created::Created;
use super::footer::{self, Footer};
use super::store::Store;

/// A pointer has this much room for it.
const FOLDER_BYTES_MAX: usize = 100;
const WORDS: &str = "bbq folder 1 ";

/// An object has messages of all listeners and hosts: only the time may be in its folder.
static RULES: NameRules = NameRules {
    what: "folder",
    fields: &[Field::Date],
    missing: "none",
    letter: |letter| letter,
    bytes_max: FOLDER_BYTES_MAX,
    names_max: None,
};

/// Reads the template of folders.
///
/// # Errors
/// Says what is wrong.
pub(super) fn parse(text: &str) -> Result<NameTemplate, String> {
    let template = NameTemplate::parse(text, &RULES)?;
    let folder = template.fallback();
    if folder.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        return Err(format!("{text:?} has an empty part; slashes stand between parts, and none is . or .."));
    }
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.=+:/".contains(letter);
    if let Some(letter) = folder.chars().find(|letter| !is_allowed(*letter)) {
        return Err(format!("{text:?} has {letter:?}; allowed are letters, digits and -_.=+:/"));
    }
    Ok(template)
}

fn pointer(folder: &str) -> Vec<u8> {
    footer::frame(&format!("{WORDS}{folder}"))
}

/// The folder in a pointer; `None` if the bytes are not those of one.
fn read_pointer(bytes: &[u8]) -> Option<&str> {
    footer::text(bytes)?.strip_prefix(WORDS).map(str::trim_end)
}

/// Writes an object, and returns the footer of the object of that name.
pub(super) async fn write(
    store: &Store,
    name: &str,
    folder: Option<&str>,
    footer: Footer,
    bytes: Arc<[u8]>,
) -> io::Result<Footer> {
    let first = folder.map_or_else(|| Arc::clone(&bytes), |folder| pointer(folder).into());
    let created = store.create(name, first).await?;
    let folder = match (created, folder) {
        (Created::New, None) => return Ok(footer),
        (Created::New, Some(folder)) => folder.to_owned(),
        (Created::Exists, _) => {
            let end = store.end(name).await?;
            match read_pointer(&end) {
                Some(folder) => folder.to_owned(),
                None => return found(name, &end, footer),
            }
        }
    };
    let name = format!("{folder}/{name}");
    if store.create(&name, bytes).await? == Created::New {
        return Ok(footer);
    }
    found(&name, &store.end(&name).await?, footer)
}

/// The footer of an object that exists.
fn found(name: &str, end: &[u8], wanted: Footer) -> io::Result<Footer> {
    let found = Footer::parse(end).ok_or_else(|| {
        io::Error::other(format!("{name} exists and was not written by bbq; move it to another name"))
    })?;
    if (found.lane, found.from) != (wanted.lane, wanted.from) {
        return Err(io::Error::other(format!(
            "{name} belongs to another place (lane {}, position {}); move it back",
            found.lane, found.from
        )));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::super::directory::Directory;
    use super::super::footer::FOOTER_BYTES;
    use super::*;

    #[test]
    fn a_folder_is_a_time() {
        let folder = parse("dt={date:%Y-%m-%d}/{date:%H}").unwrap().at(1_767_312_000_000_000_000);
        assert_eq!(folder, "dt=2026-01-02/00");
        for (text, says) in [
            ("{listener}/{date}", "{listener} cannot be in a folder; allowed: {date}"),
            ("{date}/", "empty part"),
            ("a//{date}", "empty part"),
            ("../{date}", "none is . or .."),
            ("{date:%Y %m}", "' '; allowed are letters"),
            ("", "empty part"),
            (&"x".repeat(101), "at most 100 bytes"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_pointer_is_read_as_it_was_written_and_zstd_passes_over_it() {
        let longest = "x".repeat(FOLDER_BYTES_MAX);
        for folder in ["2026/11/29", &longest] {
            let bytes = pointer(folder);
            assert_eq!((bytes.len(), read_pointer(&bytes)), (FOOTER_BYTES, Some(folder)));
            assert_eq!(Footer::parse(&bytes), None);
            assert_eq!(zstd_safe::decompress(&mut Vec::with_capacity(9), &bytes), Ok(0));
        }
        let footer = Footer { lane: 0, from: 0, until: 1, record: 1, received_ns: 1 };
        assert_eq!(read_pointer(&footer.bytes()), None);
    }

    /// What lives of bbq wrote, which were killed before they knew: each with another folder, or without one.
    #[test]
    fn an_object_is_written_once_whatever_the_folders_are() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let object = |until| {
            let footer = Footer { lane: 0, from: 0, until, record: until, received_ns: 1 };
            (footer, Arc::<[u8]>::from(footer.bytes()))
        };
        let name = "id/lane-0/0.ndjson.zst";
        for (first, second) in [(Some("a/b"), Some("c")), (Some("a/b"), None), (None, Some("c"))] {
            let place = tempfile::tempdir().unwrap();
            let store = Store::Directory(Directory::new(place.path().to_owned()));
            let ((footer, bytes), (other, others)) = (object(7), object(9));
            let write = |folder, footer, bytes: &Arc<[u8]>| {
                runtime.block_on(write(&store, name, folder, footer, Arc::clone(bytes))).unwrap()
            };
            assert_eq!(write(first, footer, &bytes), footer);
            assert_eq!(write(second, other, &others), footer, "{first:?} {second:?}");
            assert_eq!(write(first, footer, &bytes), footer);
            assert!(!place.path().join("c").exists());
            // One that was killed behind the pointer.
            if let Some(folder) = first {
                std::fs::remove_file(place.path().join(folder).join(name)).unwrap();
                assert_eq!(write(second, other, &others), other);
                assert!(place.path().join(folder).join(name).exists());
                assert!(!place.path().join("c").exists());
            }
        }
    }
}
