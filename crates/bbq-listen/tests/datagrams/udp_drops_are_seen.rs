//! If this fails, datagrams vanish uncounted: the ledger balances over a loss.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
use std::net::{SocketAddr, UdpSocket};

use bbq_listen::{Address, Group, GroupOptions, RECEIVE_BUFFER_BYTES_DEFAULT, ReceiveState, Receiver};

#[test]
fn what_the_full_buffer_refused_is_counted() {
    let address: Address = "udp://127.0.0.1:0".parse().unwrap();
    let options = GroupOptions::new(address, 1).receive_buffer_bytes(8192);
    let group = Group::open(&options).unwrap();
    let socket = &group.sockets()[0];
    assert_eq!(socket.receive_buffer_bytes(), Some(8192));
    assert_eq!(socket.drops(), Some(0));
    let client = client_of(group.local_address().socket_address().unwrap());
    for _ in 0..100 {
        client.send(&[7; 1000]).unwrap();
    }
    let mut receiver = Receiver::new(group.worker_listener(0).unwrap(), 2000).unwrap();
    while receiver.receive_batch(&mut drop_datagram).unwrap().state == ReceiveState::More {}
    let received = socket.counters().received();
    assert!(received < 100, "the buffer took them all");
    assert_eq!(received + socket.drops().unwrap(), 100);
}

fn drop_datagram(_: bbq_listen::Datagram<'_>) {}

#[test]
fn the_granted_buffer_is_told() {
    let system_max: u32 =
        std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap().trim().parse().unwrap();
    let address: Address = "udp://127.0.0.1:0".parse().unwrap();
    let mut options = GroupOptions::new(address, 1);
    let granted = |options: &GroupOptions| Group::open(options).unwrap().sockets()[0].receive_buffer_bytes();
    assert_eq!(granted(&options), Some(RECEIVE_BUFFER_BYTES_DEFAULT.min(system_max)));
    options.receive_buffer_bytes = Some(1 << 30);
    assert_eq!(granted(&options), Some(system_max.min(1 << 30)));
}

/// A UDP client connected to `to`.
fn client_of(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to).unwrap();
    socket
}
