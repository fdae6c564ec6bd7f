//! If this fails, a server does not start after a crash, takes the path from a live one, deletes a file that is not its
//! own, or leaves its own behind.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use bbq_listen::{Acceptor, Address, Group, GroupOptions, ListenError};

fn open(address: &Address) -> Result<Group, ListenError> {
    Group::open(&GroupOptions::new(address.clone(), 2))
}

fn both(path: &Path) -> [Address; 2] {
    [Address::Unix(path.to_owned()), Address::UnixDatagram(path.to_owned())]
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("so cket");
    (directory, path)
}

#[test]
fn a_stale_file_is_replaced_and_ours_removed_at_the_end() {
    let (_directory, path) = place();
    for address in both(&path) {
        // A listener that is dropped leaves its file, as a killed process does.
        drop(UnixListener::bind(&path).unwrap());
        let group = open(&address).unwrap();
        assert!(path.exists());
        drop(group);
        assert!(!path.exists(), "{address}");
    }
}

#[test]
fn a_live_socket_is_refused_and_its_holder_named() {
    let (_directory, path) = place();
    let is_refused = || {
        for address in both(&path) {
            let error = open(&address).unwrap_err();
            assert!(matches!(error, ListenError::AddressInUse { holder: Some(_), .. }), "{error:?}");
            assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
        }
    };
    let stream = open(&both(&path)[0]).unwrap();
    is_refused();
    let mut connections = 0;
    let acceptor = Acceptor::new(stream.worker_listener(0).unwrap()).unwrap();
    acceptor.accept_batch(64, &mut |_| connections += 1).unwrap();
    assert_eq!(connections, 0, "the look whether it is alive gave it a connection");
    UnixStream::connect(&path).unwrap();
    drop(stream);

    let datagrams = open(&both(&path)[1]).unwrap();
    is_refused();
    UnixDatagram::unbound().unwrap().send_to(b"x", &path).unwrap();
    drop(datagrams);
}

#[test]
fn what_is_not_a_socket_is_left_alone() {
    let (directory, path) = place();
    std::fs::write(&path, "a file").unwrap();
    std::os::unix::fs::symlink("nowhere", directory.path().join("link")).unwrap();
    for path in [path, directory.path().join("link")] {
        for address in both(&path) {
            assert!(matches!(open(&address), Err(ListenError::NotASocket { .. })));
            assert!(path.symlink_metadata().is_ok());
        }
    }
}

#[test]
fn a_file_that_took_our_place_is_left_alone() {
    let (_directory, path) = place();
    let group = open(&both(&path)[0]).unwrap();
    std::fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    drop(group);
    assert!(path.exists());
    drop(other);
}

#[test]
fn a_directory_that_is_not_there_is_said() {
    let (directory, _) = place();
    for address in both(&directory.path().join("none/socket")) {
        assert!(matches!(open(&address), Err(ListenError::NoDirectory { .. })));
    }
}
