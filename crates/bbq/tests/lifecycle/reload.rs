//! If this fails, a reload of a broken configuration stops the server, or a reload of a valid one cuts unrelated connections or has no
//! effect.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::Write;
use std::net::TcpStream;

use crate::support::lineage::Lineage;
use crate::support::stranger::Stranger;
use crate::support::{Setup, free_ports};
use rustix::process::Signal;

/// A configuration with these listeners by index, and another key.
fn write(setup: &Setup, listeners: &[&str], rest: &str) {
    let listeners: Vec<String> = listeners.iter().map(|spec| format!("{:?}", setup.fill(spec))).collect();
    let text = format!("listen = [{}]\n{rest}", listeners.join(", "));
    fs::write(setup.path().join("bbq.toml"), text).expect("a configuration");
}

const STAYS: &str = "lines+tcp://127.0.0.1:{0}";
const GOES: &str = "lines+tcp://127.0.0.1:{1}";
const COMES: &str = "whole+tcp://127.0.0.1:{2}";

/// Ports for three listeners; the file says which of them are used.
fn setup(listeners: &[&str]) -> Setup {
    let mut setup = Setup::new(&[]);
    setup.ports = free_ports(4);
    write(&setup, listeners, "");
    setup.with(&["--workers", "2", "--config", "{dir}/bbq.toml"])
}

#[test]
fn listeners_come_and_go_and_the_others_do_not_notice() {
    let setup = setup(&[STAYS, GOES]);
    let server = Lineage::start(&setup);
    let inodes = server.inodes("tcp", setup.ports[0]);
    let mut stays = TcpStream::connect(setup.address(0)).expect("it listens");
    stays.write_all(b"half ").expect("it reads");
    // A whole message, perhaps of a connection in the accept queue: it is served.
    TcpStream::connect(setup.address(1)).expect("it listens").write_all(b"queued\n").expect("it is taken");
    write(&setup, &[COMES, STAYS], "");
    server.reload();
    assert!(TcpStream::connect(setup.address(1)).is_err(), "it is gone");
    TcpStream::connect(setup.address(2)).expect("it has come").write_all(b"new").expect("it reads");
    stays.write_all(b"and half\n").expect("it reads");
    server.wait_delivered(3);
    assert_eq!(server.inodes("tcp", setup.ports[0]), inodes);
    let status = server.status();
    assert_eq!(status["listeners"].as_array().map(Vec::len), Some(2), "{status:#}");
    assert_eq!(status["listeners"][1]["ledger"]["received"], 1, "{status:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let written = String::from_utf8(setup.written()).expect("as it was sent");
    let mut lines: Vec<&str> = written.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["half and half", "new", "queued"]);
}

#[test]
fn a_broken_configuration_is_refused_with_its_place() {
    let setup = setup(&[STAYS]);
    let server = Lineage::start(&setup);
    write(&setup, &[STAYS], "workerz = 3\n");
    let why = server.refused(Signal::HUP);
    assert!(why.contains("bbq.toml:2:1: unknown key \"workerz\""), "{why}");
    // Another program has the port. Not this process: a child that another test starts would have the port for a moment longer.
    let stranger = Stranger::joins("tcp", setup.address(2));
    write(&setup, &[STAYS, COMES], "");
    let why = server.refused(Signal::HUP);
    assert!(why.contains(&setup.ports[2].to_string()) && why.contains("in use by"), "{why}");
    TcpStream::connect(setup.address(0)).expect("it listens").write_all(b"still here\n").expect("it reads");
    server.wait_delivered(1);
    stranger.leaves();
    server.reload();
    assert!(server.status()["refused_change"].is_null());
    TcpStream::connect(setup.address(2)).expect("it listens now");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// An editor or a script may have the file open in this moment.
#[test]
fn a_configuration_that_is_empty_changes_nothing() {
    let setup = setup(&[STAYS]);
    let server = Lineage::start(&setup);
    for text in ["", "\n \n"] {
        fs::write(setup.path().join("bbq.toml"), text).expect("a configuration");
        for signal in [Signal::HUP, Signal::USR2] {
            let why = server.refused(signal);
            assert!(why.contains("bbq.toml is empty"), "{why}");
        }
    }
    TcpStream::connect(setup.address(0)).expect("it listens").write_all(b"still here\n").expect("it reads");
    server.wait_delivered(1);
    write(&setup, &[STAYS, COMES], "");
    server.reload();
    TcpStream::connect(setup.address(2)).expect("it listens now");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn what_a_reload_cannot_change_is_named() {
    let setup = setup(&[STAYS]);
    let server = Lineage::start(&setup);
    let inodes = server.inodes("tcp", setup.ports[0]);
    let spec = format!("{STAYS}?distribution=shared&backlog=7&on_full=drop-newest");
    write(&setup, &[&spec], "data = \"elsewhere\"\n");
    server.reload();
    for key in ["\"distribution\"", "\"backlog\""] {
        server.wait_log(&format!("key={key}"), 1);
    }
    let listener = &server.status()["listeners"][0];
    assert_eq!(listener["distribution"], "reuseport", "{listener:#}");
    assert!(
        listener["spec"].as_str().expect("a spec").contains("drop-newest"),
        "the rest was taken: {listener:#}"
    );
    assert_eq!(server.inodes("tcp", setup.ports[0]), inodes);
    // The file has not changed: nothing is paused.
    let paused = server.count("listening");
    server.reload();
    assert_eq!(server.count("listening"), paused);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
