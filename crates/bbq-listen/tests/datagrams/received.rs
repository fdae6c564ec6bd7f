//! If this fails, datagrams are lost, cut without a word, or given the wrong sender.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;

use bbq_listen::{
    Address, DATAGRAM_BYTES_MAX, DATAGRAMS_PER_CALL, Distribution, Group, GroupOptions, ReceiveState,
    Receiver,
};

#[test]
fn udp_comes_in_batches_each_with_its_sender() {
    let group = common::group("udp", Distribution::Shared, 1);
    let mut receiver = Receiver::new(group.worker_listener(0).unwrap(), 1000).unwrap();
    let clients = [client_of(common::port_of(&group)), client_of(common::port_of(&group))];
    let sent = DATAGRAMS_PER_CALL + 5;
    for number in 0..sent {
        clients[number % 2].send(number.to_string().as_bytes()).unwrap();
    }
    let mut seen = Vec::new();
    let mut keep = |datagram: bbq_listen::Datagram<'_>| {
        assert!(!datagram.truncated);
        seen.push((String::from_utf8(datagram.bytes.to_vec()).unwrap(), datagram.peer.0.unwrap()));
    };
    let outcome = receiver.receive_batch(&mut keep).unwrap();
    assert_eq!((outcome.received, outcome.state), (DATAGRAMS_PER_CALL, ReceiveState::More));
    let outcome = receiver.receive_batch(&mut keep).unwrap();
    assert_eq!((outcome.received, outcome.state), (5, ReceiveState::Drained));
    let outcome = receiver.receive_batch(&mut keep).unwrap();
    assert_eq!((outcome.received, outcome.state), (0, ReceiveState::Drained));
    let wanted: Vec<_> =
        (0..sent).map(|number| (number.to_string(), clients[number % 2].local_addr().unwrap())).collect();
    assert_eq!(seen, wanted);
    assert_eq!(group.sockets()[0].counters().received(), sent as u64);
}

#[test]
fn ipv6_senders_are_read() {
    let address: Address = "udp://[::1]:0".parse().unwrap();
    let Ok(group) = Group::open(&GroupOptions::new(address, 1)) else {
        println!("skipped: this machine has no IPv6 loopback");
        return;
    };
    let mut receiver = Receiver::new(group.worker_listener(0).unwrap(), 100).unwrap();
    let client = std::net::UdpSocket::bind("[::1]:0").unwrap();
    client.send_to(b"six", common::port_of(&group)).unwrap();
    let mut peers = Vec::new();
    receiver.receive_batch(&mut |datagram| peers.push(datagram.peer.0.unwrap())).unwrap();
    assert_eq!(peers, [client.local_addr().unwrap()]);
}

#[test]
fn a_long_udp_datagram_is_cut_and_says_so() {
    let group = common::group("udp", Distribution::Shared, 1);
    let mut receiver = Receiver::new(group.worker_listener(0).unwrap(), 10).unwrap();
    let client = client_of(common::port_of(&group));
    for text in ["0123456789", "0123456789a", ""] {
        client.send(text.as_bytes()).unwrap();
    }
    let mut seen = Vec::new();
    let outcome = receiver.receive_batch(&mut |it| seen.push((it.bytes.to_vec(), it.truncated))).unwrap();
    assert_eq!(seen, [(b"0123456789".to_vec(), false), (b"0123456789".to_vec(), true), (vec![], false)]);
    assert_eq!((outcome.received, outcome.truncated), (3, 1));
    assert_eq!(group.sockets()[0].counters().truncated(), 1);
}

#[test]
fn a_unixgram_longer_than_the_longest_buffer_is_cut_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let group = Group::open(&GroupOptions::new(Address::UnixDatagram(path.clone()), 1)).unwrap();
    let mut receiver = Receiver::new(group.worker_listener(0).unwrap(), DATAGRAM_BYTES_MAX).unwrap();
    let unnamed = UnixDatagram::unbound().unwrap();
    let named = UnixDatagram::bind(directory.path().join("client")).unwrap();
    unnamed.send_to(&vec![1; DATAGRAM_BYTES_MAX + 1], &path).unwrap();
    named.send_to(&vec![2; DATAGRAM_BYTES_MAX], &path).unwrap();
    let mut seen = Vec::new();
    receiver
        .receive_batch(&mut |it| seen.push((it.bytes[0], it.bytes.len(), it.truncated, it.peer.0)))
        .unwrap();
    assert_eq!(seen, [(1, DATAGRAM_BYTES_MAX, true, None), (2, DATAGRAM_BYTES_MAX, false, None)]);
    assert_eq!((group.sockets()[0].queue(), group.sockets()[0].drops()), (None, None));
}

#[test]
fn unixgrams_that_are_long_come_in_smaller_batches() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let group = Group::open(&GroupOptions::new(Address::UnixDatagram(path.clone()), 1)).unwrap();
    let mut receiver = Receiver::new(group.worker_listener(0).unwrap(), 2 * 1024 * 1024).unwrap();
    let client = UnixDatagram::unbound().unwrap();
    for length in [200_000, 1, DATAGRAM_BYTES_MAX + 1] {
        client.send_to(&vec![1; length], &path).unwrap();
    }
    let mut seen = Vec::new();
    let mut receive = || {
        let outcome = receiver.receive_batch(&mut |it| seen.push((it.bytes.len(), it.truncated))).unwrap();
        (outcome.received, outcome.state)
    };
    assert_eq!([receive(), receive()], [(2, ReceiveState::More), (1, ReceiveState::Drained)]);
    assert_eq!(seen, [(200_000, false), (1, false), (DATAGRAM_BYTES_MAX + 1, false)]);
}

/// A UDP client connected to `to`.
fn client_of(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to).unwrap();
    socket
}
