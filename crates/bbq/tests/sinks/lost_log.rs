//! If this fails, a server ends or stands still because its log has no reader any more, or a failed start has the exit code of success.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{ErrorKind, Write as _, pipe};
use std::process::Stdio;

use crate::support::{Server, Setup};

/// With a log whose reader has ended.
fn start(setup: &Setup) -> Server<'_> {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    let child = setup.command().stdout(Stdio::null()).stderr(writer).spawn().expect("it starts");
    Server { setup, child }
}

#[test]
fn a_server_goes_on_without_a_reader_of_its_log() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let server = start(&setup);
    setup.wait_ready();
    server.send(0, b"message\n");
    server.wait_delivered(1);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(setup.written(), b"message\n");
}

/// The log is a pipe that is full, and stays so.
#[test]
fn a_server_goes_on_when_nobody_reads_its_log() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let (reader, mut writer) = pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&writer, true).expect("a pipe can");
    let full = loop {
        if let Err(error) = writer.write(&[b'x'; 1]) {
            break error.kind();
        }
    };
    assert_eq!(full, ErrorKind::WouldBlock);
    rustix::io::ioctl_fionbio(&writer, false).expect("a pipe can");
    let child = setup.command().stdout(Stdio::null()).stderr(writer).spawn().expect("it starts");
    let server = Server { setup: &setup, child };
    setup.wait_ready();
    server.send(0, b"message\n");
    server.wait_delivered(1);
    server.signal(libc::SIGHUP);
    server.send(0, b"another\n");
    server.wait_delivered(2);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(setup.written(), b"message\nanother\n");
    drop(reader);
}

#[test]
fn a_start_that_fails_says_so_without_a_reader() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let first = setup.start();
    assert_eq!(start(&setup).wait_end(), Some(1));
    assert_eq!(first.stop(), Some(0), "{}", setup.log());
}
