//! If this fails, a server acknowledges messages that it writes to files which no name leads to any more: all of them are gone at its end.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::mounts::{in_own_mounts, mount_small};
use crate::support::session::{Answer, Session, batch, stream_id};
use crate::support::{Server, Setup};

fn setup() -> Setup {
    Setup::new(&["bbq+tcp://127.0.0.1:{0}"])
        .with(&["--workers", "2"])
        .config("[spool]\nsegment_bytes = \"256KiB\"\nbytes_max = \"16MiB\"\n")
}

/// A session with one acknowledged message.
fn session(server: &Server<'_>) -> Session {
    let (mut session, _) = Session::open(server.setup.address(0), stream_id(1));
    session.write(&batch(stream_id(1), 1, &["first"]));
    session.acknowledged(1);
    server.wait_delivered(1);
    session
}

/// The lanes end by themselves within moments, and the server says why.
fn wait_for_end(server: &Server<'_>, gone: &Path) {
    let is_failed = |status: &Value| status["spool"]["lanes"][0]["condition"] == "failed";
    server.wait_status("the end of the lanes", is_failed);
    let (code, text) = server.health();
    let words =
        [&*gone.display().to_string(), "was deleted or moved", "Nothing more is acknowledged", "Put it back"];
    assert!(code == 503 && words.iter().all(|word| text.contains(word)), "{text}");
    server.wait_log("lane failed");
}

/// Takes something away, and checks that nothing is acknowledged afterwards.
fn nothing_is_acknowledged_without(gone: &str, take_away: impl FnOnce(&Path)) {
    let setup = setup();
    let server = setup.start();
    let mut session = session(&server);
    take_away(&setup.data());
    let gone = if gone.is_empty() { setup.data() } else { setup.data().join(gone) };
    wait_for_end(&server, &gone);
    // Nothing is taken for an acknowledgement to come.
    session.write(&batch(stream_id(1), 2, &["second"]));
    let answer = session.next();
    assert!(matches!(answer, Answer::Closed | Answer::Refused(_)), "{answer:?}");
}

#[test]
fn a_deleted_data_directory() {
    nothing_is_acknowledged_without("", |data| {
        // The server may make a file in it meanwhile.
        while data.exists() {
            let _is_tried_again = fs::remove_dir_all(data);
        }
    });
}

#[test]
fn a_moved_data_directory() {
    nothing_is_acknowledged_without("", |data| {
        fs::rename(data, data.with_extension("moved")).expect("it is moved");
    });
}

#[test]
fn a_deleted_directory_of_a_lane() {
    nothing_is_acknowledged_without("spool/lane-0", |data| {
        fs::remove_dir_all(data.join("spool/lane-0")).expect("it is deleted");
    });
}

#[test]
fn a_deleted_segment_that_is_written() {
    nothing_is_acknowledged_without("spool/lane-", |data| {
        for lane in ["lane-0", "lane-1"] {
            for segment in fs::read_dir(data.join("spool").join(lane)).expect("a lane") {
                fs::remove_file(segment.expect("an entry").path()).expect("it is deleted");
            }
        }
    });
}

#[test]
fn a_deleted_lock() {
    nothing_is_acknowledged_without("lock", |data| {
        fs::remove_file(data.join("lock")).expect("it is deleted")
    });
}

#[test]
fn a_data_directory_that_another_file_system_is_mounted_over() {
    // The server runs in this namespace, so it sees the mount.
    in_own_mounts("data_in_place::a_data_directory_that_another_file_system_is_mounted_over", || {
        nothing_is_acknowledged_without("", |data| mount_small(data, 1024));
    });
}

/// They have what the server knows anyway.
#[test]
fn deleted_cursors_and_checkpoints_are_written_again() {
    let setup = setup();
    let server = setup.start();
    let _session = session(&server);
    let cursors = setup.data().join("cursors");
    // A cursor is written under another name, and then renamed.
    let is_whole = |path: &Path| path.extension().is_none_or(|extension| extension != "new");
    let names = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter(|entry| is_whole(&entry.path())).count()
    };
    server.wait_status("the cursor", |_| names(&cursors) > 0);
    fs::remove_dir_all(&cursors).expect("they are deleted");
    server.wait_status("the cursor again", |_| names(&cursors) > 0);
    assert_eq!(server.health().0, 200, "{}", setup.log());
    server.kill();
    let server = setup.start();
    server.wait_delivered(1);
    assert_eq!(setup.written(), b"first\n");
}

/// What the sink wrote since its last commit is written again, to a new file.
#[test]
fn a_deleted_output_is_begun_anew() {
    let setup = setup();
    let server = setup.start();
    let mut session = session(&server);
    fs::remove_file(setup.output()).expect("it is deleted");
    session.write(&batch(stream_id(1), 2, &["second"]));
    session.acknowledged(2);
    // The first message, too, if it was not committed before.
    server.wait_status("the new file", |_| setup.written().ends_with(b"second\n"));
}
