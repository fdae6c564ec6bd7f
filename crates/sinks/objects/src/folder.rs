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

use std::io::{self, ErrorKind};
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

/// An object that is to be written.
#[derive(Clone)]
pub(super) struct Wanted {
    /// In the chain.
    pub(super) name: String,
    pub(super) folder: Option<String>,
    pub(super) footer: Footer,
    pub(super) bytes: Arc<[u8]>,
    /// It may be there: an upload of the name has failed, or was given up. So bbq looks before it sends the same bytes again.
    pub(super) is_repeated: bool,
}

/// Writes an object, and returns the footer of the object of that name.
pub(super) async fn write(store: &Store, wanted: Wanted) -> io::Result<Footer> {
    let Wanted { name, folder, footer, bytes, is_repeated } = wanted;
    let met = match &folder {
        None => create_unless_found(store, &name, &bytes, is_repeated).await?,
        // As short as what a look would read.
        Some(folder) => create(store, &name, &pointer(folder).into()).await?,
    };
    let folder = match (met, folder) {
        (None, None) => return Ok(footer),
        (None, Some(folder)) => folder,
        (Some(end), _) => match read_pointer(&end) {
            Some(folder) => folder.to_owned(),
            None => return found(&name, &end, footer),
        },
    };
    let name = format!("{folder}/{name}");
    match create_unless_found(store, &name, &bytes, is_repeated).await? {
        None => Ok(footer),
        Some(end) => found(&name, &end, footer),
    }
}

/// As `create`. If the object may be there, bbq looks first.
async fn create_unless_found(
    store: &Store,
    name: &str,
    bytes: &Arc<[u8]>,
    is_repeated: bool,
) -> io::Result<Option<Vec<u8>>> {
    if is_repeated && let Some(end) = store.find(name).await? {
        return Ok(Some(end));
    }
    create(store, name, bytes).await
}

/// Writes an object, or returns the end of that which exists.
async fn create(store: &Store, name: &str, bytes: &Arc<[u8]>) -> io::Result<Option<Vec<u8>>> {
    if store.create(name, Arc::clone(bytes)).await? == Created::New {
        return Ok(None);
    }
    let end = store.end(name).await.map_err(|error| match error.kind() {
        // S3 responds so (409) while another write of the name is on its way, which may still fail.
        ErrorKind::NotFound => io::Error::other(format!(
            "{name}: the server refused the write because of another one of the same name, but has no such object yet; \
             bbq tries again. If this persists, stop other writers of this name, and check what may be written to the bucket"
        )),
        _ => error,
    })?;
    Ok(Some(end))
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
    use super::super::test_server::{TestServer, connector};
    use super::*;

    #[test]
    fn a_folder_is_a_time() {
        let folder = parse("dt={date:%Y-%m-%d}/{date:%H}").unwrap().at(1_767_312_000_000_000_000);
        assert_eq!(folder, "dt=2026-01-02/00");
        for (text, says) in [
            ("{listener}/{date}", "{listener} cannot be in a folder; allowed: {date}"),
            ("{parsed.team}/{date}", "{parsed.team} cannot be in a folder; allowed: {date}"),
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
            let write = |folder: Option<&str>, footer, bytes: &Arc<[u8]>| {
                let (name, folder, bytes) = (name.to_owned(), folder.map(str::to_owned), Arc::clone(bytes));
                let wanted = Wanted { name, folder, footer, bytes, is_repeated: false };
                runtime.block_on(write(&store, wanted)).unwrap()
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

    /// An object longer than its footer, which goes to a server of tests.
    fn upload(server: &TestServer, folder: Option<&str>, is_repeated: bool) -> io::Result<Footer> {
        let footer = Footer { lane: 0, from: 0, until: 7, record: 7, received_ns: 1 };
        let bytes = [vec![b'x'; 1000], footer.bytes()].concat().into();
        let (name, folder) = ("id/lane-0/0.ndjson.zst".to_owned(), folder.map(str::to_owned));
        let wanted = Wanted { name, folder, footer, bytes, is_repeated };
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let written = runtime.block_on(write(&server.store(connector()), wanted));
        written.inspect(|found| assert_eq!(*found, footer))
    }

    #[test]
    fn an_object_that_has_arrived_is_not_sent_again() {
        for (folder, first, again) in [
            (None, vec!["PUT 1128"], vec!["GET"]),
            (Some("a/b"), vec!["PUT 128", "PUT 1128"], vec!["PUT 128", "GET", "GET"]),
        ] {
            let server = TestServer::start();
            // The last response is lost.
            server.lose_response(first.len());
            upload(&server, folder, false).unwrap_err();
            assert_eq!(server.requests(), first);
            upload(&server, folder, true).unwrap();
            assert_eq!(server.requests(), again);
        }
    }

    #[test]
    fn an_object_that_has_not_arrived_is_sent_again() {
        let server = TestServer::start();
        upload(&server, None, true).unwrap();
        assert_eq!(server.requests(), ["GET", "PUT 1128"]);
        // As S3 responds to those who may not list the bucket.
        let server = TestServer::start();
        server.refuse("403 Forbidden");
        upload(&server, None, true).unwrap();
        assert_eq!(server.requests(), ["GET", "PUT 1128"]);
    }

    #[test]
    fn an_object_that_is_just_being_written_elsewhere_is_told() {
        let server = TestServer::start();
        server.refuse("409 Conflict");
        let error = upload(&server, None, false).unwrap_err().to_string();
        assert!(error.contains("has no such object yet") && !error.contains("no bucket"), "{error}");
        upload(&server, None, true).unwrap();
    }
}
