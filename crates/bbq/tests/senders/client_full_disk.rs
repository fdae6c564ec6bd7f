//! If this fails, a sender whose spool has filled its disk never goes on, loses messages that it has taken, or does not say that the
//! disk is full.
//!
//! The spool is on a file system of 4 MiB. Acknowledgements free room, or the test does.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::path::PathBuf;
use std::time::Duration;

use crate::support::mounts::{Ballast, in_own_mounts, mount_small};
use crate::support::{PATIENCE, Setup};
use bbq_client::{OnFull, SendError, Sender, SenderBuilder};

const DISK_KIB: u32 = 4096;
/// Several times the size of the disk.
const MESSAGES: u32 = 30_000;

fn message(number: u32) -> String {
    format!("{number:08} {:x<1000}", "")
}

fn setup() -> (Setup, PathBuf) {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let spool = setup.path().join("client");
    mount_small(&spool, DISK_KIB);
    (setup, spool)
}

fn builder(setup: &Setup, on_full: OnFull) -> SenderBuilder {
    Sender::builder()
        .server(format!("bbq://{}", setup.address(0)).parse().expect("an address"))
        .spool(setup.path().join("client"))
        .on_full(on_full)
        .report_drops(false)
        .close_timeout(Duration::ZERO)
}

fn assert_names_the_disk(error: &SendError, spool: &std::path::Path) {
    assert!(matches!(error, SendError::SpoolFull { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("No space left") && text.contains(&spool.display().to_string()), "{text}");
}

fn assert_written(setup: &Setup, numbers: impl Iterator<Item = u32>) {
    let written = String::from_utf8(setup.written()).expect("text");
    assert!(written.lines().map(str::to_owned).eq(numbers.map(message)), "{} lines", written.lines().count());
}

#[test]
fn acknowledgements_make_room_whatever_was_in_it() {
    in_own_mounts("client_full_disk::acknowledgements_make_room_whatever_was_in_it", || {
        let (setup, spool) = setup();
        let sender = builder(&setup, OnFull::Block(Some(PATIENCE))).start().expect("it starts");
        let server = std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                for number in 0..MESSAGES {
                    sender.send(message(number).as_bytes()).expect("there will be room");
                }
            });
            // Full, except for the rest of a page.
            let full = u64::from(DISK_KIB) * 1024 * 9 / 10 / message(0).len() as u64;
            let start = std::time::Instant::now();
            while sender.counters().accepted < full {
                assert!(start.elapsed() < PATIENCE && !sending.is_finished(), "{:?}", sender.counters());
                std::thread::yield_now();
            }
            setup.start()
        });
        let counters = sender.close(PATIENCE).expect("the server works");
        assert_eq!(
            (counters.acknowledged, counters.dropped.total()),
            (u64::from(MESSAGES), 0),
            "{counters:?}"
        );
        let left: u64 = std::fs::read_dir(spool)
            .expect("it is there")
            .map(|entry| entry.and_then(|entry| entry.metadata()).expect("it is there").len())
            .sum();
        assert!(left < 1024, "{left} bytes are left in the spool");
        server.wait_delivered(u64::from(MESSAGES));
        assert_eq!(server.stop(), Some(0));
        assert_written(&setup, 0..MESSAGES);
    });
}

#[test]
fn who_does_not_wait_is_told_that_it_is_the_disk_and_goes_on_by_itself() {
    in_own_mounts(
        "client_full_disk::who_does_not_wait_is_told_that_it_is_the_disk_and_goes_on_by_itself",
        || {
            let (setup, spool) = setup();
            let sender = builder(&setup, OnFull::DropNewest).start().expect("it starts");
            let mut taken = Vec::new();
            // Far beyond the end: where a block would begin, and a file.
            for number in 0..MESSAGES {
                match sender.send(message(number).as_bytes()) {
                    Ok(()) => taken.push(number),
                    Err(error) => assert_names_the_disk(&error, &spool),
                }
            }
            let dropped = u64::from(MESSAGES) - taken.len() as u64;
            assert!(dropped > 0 && taken.len() > 3000, "{} taken", taken.len());
            let counters = sender.counters();
            assert_eq!((counters.dropped.full, counters.dropped.total()), (dropped, dropped), "{counters:?}");
            // The next sender finds the disk full.
            drop(sender);
            let sender = builder(&setup, OnFull::DropNewest).start().expect("it needs no room to start");
            assert_eq!(sender.counters().recovered, taken.len() as u64);
            assert_names_the_disk(&sender.send(&[b'x'; 65536]).expect_err("it is full"), &spool);
            let server = setup.start();
            sender.flush(PATIENCE).expect("the server works");
            for number in MESSAGES..MESSAGES + 10 {
                sender.send(message(number).as_bytes()).expect("there is room");
                taken.push(number);
            }
            sender.close(PATIENCE).expect("the server works");
            server.wait_delivered(taken.len() as u64);
            assert_eq!(server.stop(), Some(0));
            assert_written(&setup, taken.into_iter());
        },
    );
}

#[test]
fn a_disk_that_others_filled_is_waited_for() {
    in_own_mounts("client_full_disk::a_disk_that_others_filled_is_waited_for", || {
        let (setup, spool) = setup();
        let sender =
            builder(&setup, OnFull::Block(Some(Duration::from_millis(20)))).start().expect("it starts");
        // A MiB and not a message more: the next block would begin another file.
        let first = 1024 * 1024 / (message(0).len() as u32 + 8) + 1;
        for number in 0..first {
            sender.send(message(number).as_bytes()).expect("there is room");
        }
        assert_eq!(sender.last_sequence(), u64::from(first), "this ends the block");
        let ballast = Ballast::fill(&spool);
        // The rest of a page is there.
        let refused = (0..10).find_map(|_| sender.send(&[b'x'; 2000]).err()).expect("it is full");
        assert_names_the_disk(&refused, &spool);
        let more = sender.counters().accepted - u64::from(first);
        ballast.remove();
        for number in first..2 * first {
            sender.send(message(number).as_bytes()).expect("there is room again");
        }
        let server = setup.start();
        let counters = sender.close(PATIENCE).expect("the server works");
        assert_eq!(counters.acknowledged, 2 * u64::from(first) + more, "{counters:?}");
        server.wait_delivered(counters.acknowledged);
        assert_eq!(server.stop(), Some(0));
    });
}
