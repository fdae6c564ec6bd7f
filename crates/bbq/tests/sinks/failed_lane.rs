//! If this fails, a client that waits for its acknowledgements waits for ever after the server's disk has failed, although it may
//! have another server.

use std::io::Write;
use std::net::TcpStream;

use crate::support::{PATIENCE, Setup, protocol};

#[test]
fn who_waits_for_an_acknowledgement_hears_that_the_disk_failed() {
    // No file may grow beyond 64 blocks, and a segment is allocated as a whole: creating a segment fails, although there is room.
    let limited = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).prefix(&["sh", "-c", limited]);
    let server = setup.start();
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client.write_all(&protocol::hello(1)).expect("it reads");
    assert_eq!(protocol::receive(&mut client).0, 2, "a welcome");
    client.write_all(&protocol::batch(1, 1, &[b"one"])).expect("it reads");
    let (kind, payload) = protocol::receive(&mut client);
    assert_eq!(kind, 4, "a refusal");
    assert_eq!(payload[..3], [8, 0, 1], "spool failed, to be sent again elsewhere");
    let status = server.status();
    assert!(status["problems"][0].as_str().is_some_and(|problem| problem.contains("failed")), "{status:#}");
}
