//! If this fails, datagrams that are sent together are lost, run into each other, or go to somebody else.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use bbq_listen::{Distribution, Group, GroupOptions, SEND_BATCH_DATAGRAMS_MAX, SendBatch};

/// Loopback takes microseconds; so long only what never comes.
const LOST: Duration = Duration::from_secs(10);

/// Of every kind: equal ones, some that end a row, an empty one, some too long for segments, the longest there is.
const LENGTHS: [usize; 12] = [60, 60, 60, 59, 60, 1, 0, 1232, 1232, 1233, 1233, 65_507];

#[test]
fn every_datagram_arrives_whole_at_its_peer() {
    let group = common::group("udp", Distribution::Shared, 1);
    let mut batch = SendBatch::new(Arc::clone(&group.sockets()[0]));
    let clients: Vec<UdpSocket> = (0..5).map(|_| client("127.0.0.1:0")).collect();
    // In turn, as queries come from many.
    for &length in &LENGTHS {
        for client in &clients {
            add(&mut batch, client.local_addr().unwrap(), &datagram(client, length));
        }
    }
    batch.send();
    assert_eq!((batch.sent(), batch.failed()), ((LENGTHS.len() * clients.len()) as u64, 0));
    for client in &clients {
        let mut wanted: Vec<Vec<u8>> = LENGTHS.iter().map(|&length| datagram(client, length)).collect();
        wanted.sort();
        assert_eq!(received(client, LENGTHS.len(), common::port_of(&group)), wanted);
    }
}

#[test]
fn a_full_one_sends_by_itself_even_more_than_one_message_holds() {
    let group = common::group("udp", Distribution::Shared, 1);
    let mut batch = SendBatch::new(Arc::clone(&group.sockets()[0]));
    // Few enough for each that they fit into its buffer, more than the kernel makes of one message.
    let clients = [client("127.0.0.1:0"), client("127.0.0.1:0"), client("127.0.0.1:0")];
    for number in 0..SEND_BATCH_DATAGRAMS_MAX {
        assert_eq!(batch.sent(), 0);
        add(&mut batch, clients[number % 3].local_addr().unwrap(), &[number as u8; 10]);
    }
    assert_eq!((batch.sent(), batch.failed()), (SEND_BATCH_DATAGRAMS_MAX as u64, 0));
    for (first, client) in clients.iter().enumerate() {
        let wanted: Vec<_> =
            (first..SEND_BATCH_DATAGRAMS_MAX).step_by(3).map(|number| vec![number as u8; 10]).collect();
        assert_eq!(received(client, wanted.len(), common::port_of(&group)), wanted);
    }
}

#[test]
fn who_cannot_be_sent_to_keeps_nobody_from_getting_theirs() {
    let group = common::group("udp", Distribution::Shared, 1);
    let mut batch = SendBatch::new(Arc::clone(&group.sockets()[0]));
    let client = client("127.0.0.1:0");
    let nobody: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let elsewhere: SocketAddr = "[::1]:9".parse().unwrap();
    for to in [nobody, client.local_addr().unwrap(), elsewhere, nobody, client.local_addr().unwrap()] {
        add(&mut batch, to, b"text");
    }
    batch.add(client.local_addr().unwrap(), |bytes| {
        bytes.extend_from_slice(b"not to be sent");
        false
    });
    batch.send();
    assert_eq!((batch.sent(), batch.failed()), (2, 3));
    assert_eq!(received(&client, 2, common::port_of(&group)), [b"text", b"text"]);
}

#[test]
fn ipv6_peers_get_theirs() {
    let Ok(group) = Group::open(&GroupOptions::new("udp://[::1]:0".parse().unwrap(), 1)) else {
        println!("skipped: this machine has no IPv6 loopback");
        return;
    };
    let mut batch = SendBatch::new(Arc::clone(&group.sockets()[0]));
    let client = client("[::1]:0");
    for text in [b"one", b"six", b"two"] {
        add(&mut batch, client.local_addr().unwrap(), text);
    }
    batch.send();
    assert_eq!(received(&client, 3, common::port_of(&group)), [b"one", b"six", b"two"]);
}

fn client(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(LOST)).unwrap();
    socket
}

/// What only this client is to get, and can be told from what is beside it.
fn datagram(client: &UdpSocket, length: usize) -> Vec<u8> {
    let port = client.local_addr().unwrap().port().to_be_bytes();
    let length_bytes = (length as u16).to_be_bytes();
    port.iter().chain(&length_bytes).copied().cycle().take(length).collect()
}

fn add(batch: &mut SendBatch, to: SocketAddr, text: &[u8]) {
    batch.add(to, |bytes| {
        bytes.extend_from_slice(text);
        true
    });
}

/// The next `count` datagrams, sorted, each from `from`.
fn received(client: &UdpSocket, count: usize, from: SocketAddr) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = (0..count)
        .map(|_| {
            let mut buffer = vec![0; 65_536];
            let (length, peer) = loop {
                match client.recv_from(&mut buffer) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    received => break received.unwrap(),
                }
            };
            assert_eq!(peer, from);
            buffer.truncate(length);
            buffer
        })
        .collect();
    all.sort();
    all
}
