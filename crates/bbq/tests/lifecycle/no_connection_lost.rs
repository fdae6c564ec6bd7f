//! If this fails, clients see refused or reset connections while a server is reloaded or upgraded, or a message that was
//! taken is lost or delivered twice.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::support::connecting::{Outcome, assert_each_once, while_connecting};
use crate::support::lineage::Lineage;
use crate::support::namespace::in_own_network;
use crate::support::{PATIENCE, Setup, listen_at};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const RELOADS: u64 = 20;
const UPGRADES: u64 = 5;
/// Connections between two changes at least.
const BETWEEN: u64 = 50;

/// A configuration that differs from the one before, as a reload of an unchanged file does nothing.
fn configuration(number: u64) -> String {
    format!("[spool]\nflush_interval_ms = {}\n", 1 + number % 2)
}

fn change(setup: &Setup, server: &mut Lineage<'_>, outcome: &Outcome) {
    for number in 1..=RELOADS {
        fs::write(setup.path().join("bbq.toml"), configuration(number)).expect("a configuration");
        server.reload();
        outcome.wait_more(BETWEEN);
        if number % (RELOADS / UPGRADES) == 0 {
            server.upgrade();
            outcome.wait_more(BETWEEN);
        }
    }
}

#[test]
fn none_is_refused_or_reset_by_reloads_and_upgrades() {
    let settings = ["net.ipv4.tcp_migrate_req=0", "net.ipv4.tcp_migrate_req=1"];
    in_own_network("no_connection_lost::none_is_refused_or_reset_by_reloads_and_upgrades", &settings, || {
        let setup = Setup::new(&["whole+tcp://127.0.0.1:{0}?distribution=reuseport"]);
        let setup = setup.with(&["--workers", "4"]).config(&configuration(0));
        let mut server = Lineage::start(&setup);
        let before = server.inodes("tcp", setup.ports[0]);
        assert_eq!(before.len(), 4);
        let outcome = while_connecting(setup.address(0), |outcome| change(&setup, &mut server, outcome));
        assert_eq!(outcome.lost(), 0, "{outcome:?}\n{}", setup.log());
        assert_eq!(server.inodes("tcp", setup.ports[0]), before, "the same sockets as at the start");
        assert_eq!(server.count("reloaded"), RELOADS as usize, "each was one");
        server.wait_delivered(outcome.answered());
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        assert_each_once(&setup.written(), &outcome);
    });
}

#[test]
fn none_is_refused_or_reset_while_workers_come_and_go() {
    let settings = ["net.ipv4.tcp_migrate_req=0", "net.ipv4.tcp_migrate_req=1"];
    in_own_network(
        "no_connection_lost::none_is_refused_or_reset_while_workers_come_and_go",
        &settings,
        || {
            for distribution in ["reuseport", "shared", "accept-mutex", "handoff", "duplicate=2"] {
                let setup =
                    Setup::new(&[&format!("whole+tcp://127.0.0.1:{{0}}?distribution={distribution}")]);
                let setup = setup.config("workers = 2\n");
                let mut server = Lineage::start(&setup);
                let outcome = while_connecting(setup.address(0), |outcome| {
                    for (round, workers) in [8, 2, 5, 2].into_iter().enumerate() {
                        let configuration = format!("workers = {workers}\n");
                        fs::write(setup.path().join("bbq.toml"), configuration).expect("a configuration");
                        if round < 2 {
                            server.reload()
                        } else {
                            server.upgrade()
                        }
                        let status = server.status();
                        assert_eq!(status["workers"].as_array().map(Vec::len), Some(workers), "{status:#}");
                        outcome.wait_more(BETWEEN);
                    }
                });
                assert_eq!(outcome.lost(), 0, "{distribution}: {outcome:?}\n{}", setup.log());
                server.wait_delivered(outcome.answered());
                assert_eq!(server.stop(), Some(0), "{}", setup.log());
                assert_each_once(&setup.written(), &outcome);
            }
        },
    );
}

/// Serves the waiting clients once.
fn serve(listener: &TcpListener) {
    let mut descriptors = [PollFd::new(listener, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    // A signal, or no client: the next call looks again.
    let _again = poll(&mut descriptors, Some(&timeout));
    while let Ok((mut stream, _)) = listener.accept() {
        stream.set_nonblocking(false).expect("a connection");
        let _gone = stream.read_to_end(&mut Vec::new());
    }
}

/// The connect loop of the test above can see a loss: a server that opens its listener anew loses some.
#[test]
fn a_naive_close_is_seen() {
    let mut listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("a name");
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let server = scope.spawn(move || {
            while !stop.load(Ordering::Acquire) {
                listener.set_nonblocking(true).expect("a listener");
                (0..50).for_each(|_| serve(&listener));
                drop(listener);
                listener = listen_at(address.port());
            }
        });
        let outcome = while_connecting(address, |outcome| {
            let start = Instant::now();
            while outcome.lost() == 0 && start.elapsed() < PATIENCE {
                std::thread::yield_now();
            }
        });
        stop.store(true, Ordering::Release);
        server.join().expect("the naive server");
        assert!(outcome.lost() > 0, "{outcome:?}");
    });
}
