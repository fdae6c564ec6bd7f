//! If this fails, a signal during the start ends the server at once: a reload or an upgrade takes the service down, and a stop leaves
//! sockets and files behind; or Ctrl-C for another program stops a server in the background of a shell.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::support::fault::Fault;
use crate::support::lineage::Lineage;
use crate::support::{PATIENCE, Setup};
use rustix::process::Signal;

fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().expect("coreutils are there");
    assert!(made.success());
}

/// The writing end of a pipe, once a reader has opened it and waits.
fn writer_of(path: &Path) -> File {
    let start = Instant::now();
    loop {
        match OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
            Ok(pipe) => return pipe,
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENXIO), "{error}"),
        }
        assert!(start.elapsed() < PATIENCE, "nobody reads {}", path.display());
        std::thread::yield_now();
    }
}

/// A configuration with a change for a reload.
fn configuration(drain_timeout: u32) -> String {
    format!("drain_timeout_seconds = {drain_timeout}\n")
}

/// Lets a server that reads its configuration go on. The next reader waits at a new pipe.
fn configure(path: &Path, mut pipe: File, drain_timeout: u32) {
    let next = path.with_extension("next");
    make_pipe(&next);
    fs::rename(next, path).expect("a new pipe");
    pipe.write_all(configuration(drain_timeout).as_bytes()).expect("it reads");
}

/// A server whose configuration is a pipe: it waits there until the test has written it.
fn held() -> (Setup, PathBuf) {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--config", "{dir}/pipe"]);
    let pipe = setup.path().join("pipe");
    make_pipe(&pipe);
    (setup, pipe)
}

#[test]
fn a_reload_is_done_once_it_serves() {
    let (setup, pipe) = held();
    let server = Lineage::spawn(&setup);
    let config = writer_of(&pipe);
    server.signal(Signal::HUP);
    configure(&pipe, config, 10);
    configure(&pipe, writer_of(&pipe), 11);
    server.wait_log(" reloaded", 1);
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    client.write_all(b"after the reload\n").expect("it reads");
    server.wait_delivered(1);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn an_upgrade_is_done_once_it_serves() {
    let (setup, pipe) = held();
    let mut server = Lineage::spawn(&setup);
    let config = writer_of(&pipe);
    server.signal(Signal::USR2);
    configure(&pipe, config, 10);
    // The successor reads it, too.
    configure(&pipe, writer_of(&pipe), 10);
    server.upgraded(2);
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    client.write_all(b"after the upgrade\n").expect("it reads");
    server.wait_delivered(1);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn an_end_before_anything_is_open_opens_nothing() {
    for signal in [Signal::TERM, Signal::INT] {
        let (setup, pipe) = held();
        let server = Lineage::spawn(&setup);
        let config = writer_of(&pipe);
        server.signal(signal);
        configure(&pipe, config, 10);
        assert_eq!(server.wait_end(server.pid()), Some(0), "{}", setup.log());
        assert!(!setup.data().exists() && !setup.output().exists(), "{}", setup.log());
    }
}

#[test]
fn an_end_in_the_middle_of_the_start_loses_nothing_and_closes_in_order() {
    let setup = Setup::new(&["lines+unix://{dir}/socket"]).with(&["--config", "{dir}/pipe"]);
    let (pipe, socket) = (setup.path().join("pipe"), setup.path().join("socket"));
    make_pipe(&pipe);
    let server = Lineage::spawn(&setup);
    let config = writer_of(&pipe);
    // The server makes its first thread after it has the lock and the sockets.
    let held = Fault::inject(server.pid(), "bbq", "clone3:delay_enter=120000000");
    configure(&pipe, config, 10);
    held.wait_held(server.pid(), libc::SYS_clone3);
    let mut client = UnixStream::connect(&socket).expect("it listens");
    client.write_all(b"came while it started\n").expect("there is room");
    server.signal(Signal::TERM);
    drop(held);
    assert_eq!(server.wait_end(server.pid()), Some(0), "{}", setup.log());
    assert_eq!(String::from_utf8_lossy(&setup.written()), "came while it started\n");
    assert!(!socket.exists(), "{}", setup.log());
}

#[test]
fn an_interrupt_that_is_ignored_stays_ignored() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--config", "{dir}/bbq.toml"]).prefix(&[
        "sh",
        "-c",
        "trap '' INT; exec \"$@\"",
        "sh",
    ]);
    let file = setup.path().join("bbq.toml");
    fs::write(&file, configuration(10)).expect("a configuration");
    let mut server = Lineage::start(&setup);
    for seconds in 11..13 {
        server.signal(Signal::INT);
        fs::write(&file, configuration(seconds)).expect("a configuration");
        server.reload();
        server.upgrade();
    }
    assert_eq!(server.stop(), Some(0));
    assert!(!setup.log().contains("SIGINT"), "{}", setup.log());
}
