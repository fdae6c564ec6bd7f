//! The smallest whole path: if this fails, nothing works. Lines over tcp reach the file as they were sent, including those sent before
//! a kill and a stop.

use crate::support::{Setup, assert_balanced};

#[test]
fn lines_reach_the_file_over_a_stop_and_a_kill() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    server.send(0, b"one\ntwo\r\n\n\xff\x00three\n");
    server.wait_delivered(4);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let server = setup.start();
    server.send(0, b"four\n");
    server.wait_delivered(5);
    server.kill();
    let server = setup.start();
    server.send(0, b"five\n");
    assert_balanced(&server.wait_delivered(6));
    assert_eq!(setup.written(), b"one\ntwo\n\n\xff\x00three\nfour\nfive\n");
}
