//! If this fails, a server that cannot make all of its threads runs with some of them, or a reload that cannot make them loses
//! connections or ends the server.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::Write;
use std::net::TcpStream;

use crate::support::fault::Fault;
use crate::support::lineage::Lineage;
use crate::support::{Setup, refused_start};
use rustix::process::Signal;

/// In the order of creation. The first ones outlive a reload.
const THREADS: [&str; 11] = [
    "control",
    "control-checks",
    "admin-tail",
    "admin",
    "lane-0",
    "lane-1",
    "retention",
    "sink-0",
    "worker-0",
    "worker-1",
    "watch",
];
const OF_A_RELOAD: usize = 7;

fn setup() -> Setup {
    let setup =
        Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--workers", "2", "--config", "{dir}/bbq.toml"]);
    configure(&setup, 0);
    setup
}

/// A reload can change the drain timeout.
fn configure(setup: &Setup, round: usize) {
    let text = format!("drain_timeout_seconds = {}\n", 10 + round);
    fs::write(setup.path().join("bbq.toml"), text).expect("a configuration");
}

#[test]
fn a_start_opens_everything_or_nothing() {
    // The first thread is the log's: without it lines are written at once.
    for (number, name) in (2..).zip(THREADS) {
        let inject = format!("inject=clone3:error=EAGAIN:when={number}");
        let setup = setup().prefix(&["strace", "-f", "-qq", "-o", "/dev/null", "-e", &inject]);
        let (code, said) = refused_start(&mut setup.command());
        assert_eq!(code, Some(1), "{name}: {said}");
        // The spool's own error names the lane's directory.
        assert!(said.contains(name) && said.contains("Resource temporarily unavailable"), "{name}: {said}");
        assert!(!setup.output().exists(), "{name}: the output was made");
        assert!(TcpStream::connect(setup.address(0)).is_err(), "{name}: it listens");
    }
}

#[test]
fn a_reload_goes_back_to_what_was_before() {
    let setup = setup();
    let server = Lineage::start(&setup);
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    for round in 1..=OF_A_RELOAD {
        client.write_all(format!("half of {round}").as_bytes()).expect("it reads");
        server.wait_status("the connection", |status| {
            let workers = status["workers"].as_array().expect("workers");
            workers.iter().filter_map(|worker| worker["connections"].as_u64()).sum::<u64>() == 1
        });
        let fault = Fault::inject(server.pid(), "control", &format!("clone3:error=EAGAIN:when={round}"));
        configure(&setup, round);
        let why = server.refused(Signal::HUP);
        let name = THREADS[THREADS.len() - OF_A_RELOAD + round - 1];
        assert!(why.contains(name), "{round}: {why}");
        drop(fault);
        client.write_all(b", and the rest\n").expect("it reads");
        server.wait_delivered(round as u64);
    }
    server.reload();
    client.write_all(b"last\n").expect("it reads");
    server.wait_delivered(OF_A_RELOAD as u64 + 1);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let lines: String = (1..=OF_A_RELOAD).map(|round| format!("half of {round}, and the rest\n")).collect();
    assert_eq!(String::from_utf8_lossy(&setup.written()), lines + "last\n");
}
