//! If this fails, a server on a wildcard address replies from an address that the client did not ask, and the client drops the reply.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
use crate::common;
use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use bbq_listen::{Address, Group, GroupOptions, ReceiveState, Receiver, SendBatch};

/// Longer than anything takes on a busy machine.
const LOST: Duration = Duration::from_secs(20);

/// A group at `address`; `None` where the machine has no such address.
fn group(address: &str) -> Option<Group> {
    Group::open(&GroupOptions::new(Address::parse("udp", address).unwrap(), 1)).ok()
}

/// Receives all that waits, and sends it back.
fn echo(group: &Group) -> SendBatch {
    let mut receiver = Receiver::new(group.worker_listener(0).unwrap(), 100).unwrap();
    let mut batch = SendBatch::new(Arc::clone(receiver.worker_listener().socket()));
    let mut echo = |datagram: bbq_listen::Datagram<'_>| {
        batch.reply(&datagram, |output| {
            output.extend_from_slice(datagram.bytes);
            true
        });
    };
    while receiver.receive_batch(&mut echo).unwrap().state != ReceiveState::Drained {}
    batch.send();
    batch
}

/// Asks each address in turn from one client. Returns the addresses that replied, by what was sent.
fn replies(group: &Group, client: &UdpSocket, addresses: &[&str]) -> BTreeSet<(String, String)> {
    client.set_read_timeout(Some(LOST)).unwrap();
    for (number, ip) in addresses.iter().enumerate() {
        let to = SocketAddr::new(ip.parse().unwrap(), common::port_of(group).port());
        client.send_to(number.to_string().as_bytes(), to).unwrap();
    }
    let batch = echo(group);
    assert_eq!((batch.sent(), batch.failed()), (addresses.len() as u64, 0));
    let mut bytes = [0; 100];
    let reply = |_| {
        let (length, from) = client.recv_from(&mut bytes).unwrap();
        (String::from_utf8(bytes[..length].to_vec()).unwrap(), from.ip().to_string())
    };
    addresses.iter().map(reply).collect()
}

fn wanted(addresses: &[&str]) -> BTreeSet<(String, String)> {
    addresses.iter().enumerate().map(|(number, ip)| (number.to_string(), (*ip).to_owned())).collect()
}

/// Several to one address are one message that the kernel cuts; from two addresses they are two.
#[test]
fn replies_leave_from_the_address_that_was_asked() {
    let addresses = ["127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.1", "127.0.0.2"];
    for wildcard in ["0.0.0.0:0", "[::]:0"] {
        let Some(group) = group(wildcard) else { continue };
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(replies(&group, &client, &addresses), wanted(&addresses), "{wildcard}");
    }
}

#[test]
fn replies_by_ipv6_leave_from_the_address_that_was_asked() {
    for address in ["[::]:0", "[::1]:0"] {
        let (Some(group), Ok(client)) = (group(address), UdpSocket::bind("[::1]:0")) else {
            println!("skipped: this machine has no IPv6 loopback");
            return;
        };
        assert_eq!(replies(&group, &client, &["::1"; 3]), wanted(&["::1"; 3]), "{address}");
    }
}

#[test]
fn only_a_wildcard_socket_tells_the_local_address() {
    for (address, is_told) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        let group = group(address).unwrap();
        let adopted = GroupOptions::new(group.local_address().clone(), 1)
            .adopt(
                group
                    .sockets()
                    .iter()
                    .map(|socket| std::os::fd::AsFd::as_fd(socket).try_clone_to_owned().unwrap()),
            )
            .unwrap();
        let mut receiver = Receiver::new(adopted.worker_listener(0).unwrap(), 100).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(b"x", ("127.0.0.1", common::port_of(&group).port())).unwrap();
        let mut local = Vec::new();
        receiver.receive_batch(&mut |datagram| local.push(datagram.local)).unwrap();
        assert_eq!(local, [is_told.then(|| "127.0.0.1".parse().unwrap())], "{address}");
    }
}
