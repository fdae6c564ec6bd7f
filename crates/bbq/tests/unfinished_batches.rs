//! What a worker holds in unfinished batches is bounded: who asks for more is told to come back. If this fails, a few
//! thousand slow clients take all of the machine's memory.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

mod support;

use std::io::Write;
use std::net::TcpStream;

use support::{PATIENCE, Setup, protocol};

const MIB: usize = 1024 * 1024;

/// A session of its own stream that has its welcome.
fn open(setup: &Setup, stream: u128) -> TcpStream {
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client.write_all(&protocol::hello(stream)).expect("it reads");
    assert_eq!(protocol::receive(&mut client).0, 2, "a welcome");
    client
}

#[test]
fn the_bound_holds_behind_batches_that_were_finished() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    let server = setup.start();
    let message = [b'x'; 127];
    let messages = vec![message.as_slice(); 15 * MIB / 128];
    let whole = protocol::batch(1, 1, &messages);
    let unfinished = |stream: u128| {
        // Its checksum is looked at when it is whole, which never comes.
        let mut bytes = whole[..whole.len() - 1].to_vec();
        bytes[16..32].copy_from_slice(&stream.to_le_bytes());
        bytes
    };
    let mut clients = Vec::new();
    // 240 of 256 MiB.
    for stream in 2..18 {
        let mut client = open(&setup, stream);
        client.write_all(&unfinished(stream)).expect("it reads");
        clients.push(client);
    }
    // One that finishes a batch and begins another; only the other counts.
    let mut busy = open(&setup, 1);
    busy.write_all(&whole).expect("it reads");
    busy.write_all(&unfinished(1)).expect("it reads");
    assert_eq!(protocol::receive(&mut busy).0, 3, "an ack");
    // 270 MiB.
    let mut last = open(&setup, 18);
    // It is refused, and closed, in the middle.
    let _refused = last.write_all(&unfinished(18));
    server.wait_status("a refusal", |status| status["listeners"][0]["ledger"]["refused"] == 1);
    let status = server.wait_delivered(messages.len() as u64);
    assert_eq!(status["listeners"][0]["ledger"]["refused"], 1, "{status:#}");
}
