//! If this fails, a server acknowledges messages that a thin disk without room does not have, or ends a lane that could wait for room.
//!
//! On such a disk a write is taken and its sync fails. Since Linux 6.15, ext4 then keeps nothing that is written to the same cached pages
//! later, although it is synced with success. Only a real root may mount such a disk; for others these tests show nothing.

use std::path::Path;

use bbq_spool::{DiskStorage, OpenMode, Storage};
use serde_json::Value;

use crate::support::mounts::{Ballast, ThinDisk, in_own_mounts};
use crate::support::session::{Session, batch, stream_id};
use crate::support::{Server, Setup};

const BLOCK: u64 = 4096;
/// Messages of a batch, each of 1 KB: less than what is written past the page cache.
const MESSAGES: u64 = 100;
/// More than the file system in memory takes beyond what was written.
const BATCHES_MAX: u64 = 60;
const SPOOL: &str = "[spool]\nsegment_bytes = \"8MiB\"\nbytes_max = \"24MiB\"\n";

fn thin_disk(directory: &Path, mounted_at: &Path) -> Option<ThinDisk> {
    let disk = ThinDisk::mount(&directory.join("backing"), mounted_at);
    if disk.is_none() {
        println!("not tested: this user may not mount a disk of its own");
    }
    disk
}

fn setup(config: &str) -> Setup {
    Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]).config(config)
}

fn send(session: &mut Session, first: u64) {
    let messages: Vec<String> = (first..first + MESSAGES).map(|number| format!("{number:>1000}")).collect();
    session.write(&batch(stream_id(1), first, &messages));
}

/// After a first batch, sends batches until the disk has no room. Returns how many were sent.
fn send_until_full(server: &Server<'_>, session: &mut Session) -> u64 {
    for sent in 2..=BATCHES_MAX {
        send(session, (sent - 1) * MESSAGES + 1);
        // A batch that waits in memory counts as queued, too.
        let status = server.wait_status("the batch", |status| {
            durable(status) >= sent * MESSAGES || condition(status) != "writing"
        });
        if condition(&status) != "writing" {
            return sent;
        }
    }
    panic!("the disk takes everything");
}

fn lines(until: u64) -> String {
    (1..=until).map(|number| format!("{number:>1000}\n")).collect()
}

/// Starts a server whose disk gets full in the middle of a segment. Returns how many batches were sent, too.
fn start_and_fill<'a>(setup: &'a Setup, disk: &ThinDisk) -> (Server<'a>, Session, Ballast, u64) {
    let server = setup.start();
    let (mut session, _) = Session::open(setup.address(0), stream_id(1));
    // So that there is a segment, whose blocks are allocated and not yet written.
    send(&mut session, 1);
    session.acknowledged(MESSAGES);
    let ballast = disk.fill();
    let sent = send_until_full(&server, &mut session);
    (server, session, ballast, sent)
}

fn durable(status: &Value) -> u64 {
    status["spool"]["lanes"][0]["records"].as_u64().unwrap_or(0)
}

fn condition(status: &Value) -> &Value {
    &status["spool"]["lanes"][0]["condition"]
}

#[test]
fn bytes_that_are_written_again_are_on_the_disk() {
    in_own_mounts("thin_disk::bytes_that_are_written_again_are_on_the_disk", || {
        let directory = tempfile::tempdir().expect("a directory");
        let mounted_at = directory.path().join("disk");
        let Some(disk) = thin_disk(directory.path(), &mounted_at) else { return };
        let path = mounted_at.join("file");
        let storage: &dyn Storage = &DiskStorage;
        let file = storage.create(&path, 64 * BLOCK, b"head").expect("a file");
        let bytes = vec![b'x'; 16 * BLOCK as usize];
        let ballast = disk.fill();
        file.write_all_at(BLOCK, &bytes).expect("the page cache takes it");
        file.sync_data().expect_err("the disk has no room");
        file.write_again(&[(BLOCK, &bytes[..])]).expect_err("the disk still has no room");
        ballast.remove();
        file.write_again(&[(BLOCK, &bytes[..])]).expect("the disk has room");
        drop(file);
        disk.remount();
        let mut found = vec![0; bytes.len()];
        let file = storage.open(&path, OpenMode::Existing).expect("it is there");
        assert_eq!(file.read_at(BLOCK, &mut found).expect("it is read"), bytes.len());
        assert!(found == bytes);
    });
}

#[test]
fn a_disk_that_a_sync_finds_full_is_waited_for() {
    in_own_mounts("thin_disk::a_disk_that_a_sync_finds_full_is_waited_for", || {
        let setup = setup(SPOOL);
        let Some(disk) = thin_disk(setup.path(), &setup.data()) else { return };
        let (server, mut session, ballast, sent) = start_and_fill(&setup, &disk);
        let status = server.wait_status("no room", |status| condition(status) == "waiting-for-space");
        let told = status["findings"].to_string();
        assert!(told.contains("No space left") && told.contains("make room on its disk"), "{status:#}");
        ballast.remove();
        session.acknowledged(sent * MESSAGES);
        server.wait_delivered(sent * MESSAGES);
        server.kill();
        disk.remount();
        let server = setup.start();
        server.wait_delivered(sent * MESSAGES);
        assert!(setup.written() == lines(sent * MESSAGES).into_bytes());
    });
}

/// What a start takes for durable is on the disk, although the page cache has more of it.
#[test]
fn a_server_that_was_killed_when_its_disk_was_full_believes_the_disk_alone() {
    in_own_mounts(
        "thin_disk::a_server_that_was_killed_when_its_disk_was_full_believes_the_disk_alone",
        || {
            let mut setup = setup(&format!("sink = []\n{SPOOL}"));
            setup.set_sinks(&[]);
            let Some(disk) = thin_disk(setup.path(), &setup.data()) else { return };
            let (server, _session, ballast, sent) = start_and_fill(&setup, &disk);
            server.kill();
            ballast.remove();
            let server = setup.start();
            let believed = durable(&server.status());
            assert!(believed >= (sent - 1) * MESSAGES, "{believed} of what {sent} batches had");
            server.kill();
            disk.remount();
            let server = setup.start();
            assert_eq!(durable(&server.status()), believed);
        },
    );
}

/// The same of the file of a sink: what a commit covers is there once its pages were dropped.
#[test]
fn a_file_on_a_disk_that_a_sync_finds_full_gets_each_line_once() {
    in_own_mounts("thin_disk::a_file_on_a_disk_that_a_sync_finds_full_gets_each_line_once", || {
        let mut setup = setup(SPOOL);
        setup.set_sinks(&["file:{dir}/disk/out.log"]);
        let mounted_at = setup.path().join("disk");
        let Some(disk) = thin_disk(setup.path(), &mounted_at) else { return };
        let server = setup.start();
        let (mut session, _) = Session::open(setup.address(0), stream_id(1));
        send(&mut session, 1);
        // What is delivered is committed a moment later.
        server.wait_status("the commit", |_| {
            setup.cursors().contains(&format!("length {}", lines(MESSAGES).len()))
        });
        let ballast = disk.fill();
        let sent = BATCHES_MAX;
        for batch in 1..sent {
            send(&mut session, batch * MESSAGES + 1);
        }
        session.acknowledged(sent * MESSAGES);
        let status = server.wait_status("no room", |status| !status["sinks"][0]["problem"].is_null());
        assert!(status["sinks"][0]["problem"].to_string().contains("No space left"), "{status:#}");
        ballast.remove();
        server.wait_delivered(sent * MESSAGES);
        server.kill();
        disk.remount();
        let found = std::fs::read(mounted_at.join("out.log")).expect("the file");
        assert!(found == lines(sent * MESSAGES).into_bytes(), "{} bytes", found.len());
    });
}
