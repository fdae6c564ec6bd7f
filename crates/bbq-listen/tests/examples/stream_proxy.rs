//! If this fails, `stream_proxy` loses bytes, holds more than it should for a slow peer, or does not pass on that one side
//! has ended.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::thread;

use crate::example::Example;

/// More than all buffers on the way hold.
const BYTES: usize = 32 * 1024 * 1024;

#[test]
fn what_goes_in_comes_out_and_an_end_is_passed_on_by_itself() {
    for distribution in
        ["auto", "reuseport", "shared", "accept-mutex", "handoff", "handoff=fewest", "duplicate=2"]
    {
        let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = upstream.local_addr().unwrap().to_string();
        let proxy = Example::start("stream_proxy", &["--upstream", &to, "--distribution", distribution]);
        let mut client = proxy.connect();
        client.write_all(b"question").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let (mut server, _) = upstream.accept().unwrap();
        let mut question = String::new();
        server.read_to_string(&mut question).unwrap();
        assert_eq!(question, "question", "{distribution}");
        // The client has ended; the answer still has its way.
        server.write_all(b"answer").unwrap();
        drop(server);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "answer", "{distribution}");
        assert!(proxy.terminate().success);
    }
}

#[test]
fn a_client_that_reads_late_gets_every_byte_in_order() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = upstream.local_addr().unwrap().to_string();
    let proxy = Example::start("stream_proxy", &["--upstream", &to]);
    let mut client = proxy.connect();
    let (mut server, _) = upstream.accept().unwrap();
    let sending = thread::spawn(move || server.write_all(&pattern()).unwrap());
    // The first byte is there, so the rest comes as far as it fits.
    let mut received = vec![0; BYTES];
    client.read_exact(&mut received[..1]).unwrap();
    client.read_exact(&mut received[1..]).unwrap();
    sending.join().unwrap();
    assert!(received == pattern(), "bytes are missing or out of order");
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

#[test]
fn without_upstream_the_connection_is_closed() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let proxy = Example::start("stream_proxy", &["--upstream", &nobody, "--workers", "1"]);
    let mut client = proxy.connect();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    let ended = proxy.terminate();
    assert!(ended.success && ended.workers == ["worker 0: 1 connections"], "{:?}", ended.workers);
}

fn pattern() -> Vec<u8> {
    (0..BYTES).map(|index| (index % 251) as u8).collect()
}
