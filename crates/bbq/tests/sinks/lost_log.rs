//! If this fails, a server ends because its log has no reader any more, or a failed start has the exit code of success.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::pipe;
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

#[test]
fn a_start_that_fails_says_so_without_a_reader() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let first = setup.start();
    assert_eq!(start(&setup).wait_end(), Some(1));
    assert_eq!(first.stop(), Some(0), "{}", setup.log());
}
