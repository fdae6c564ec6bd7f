//! If this fails, the connection of a peer that lost its power stays open for ever, and takes a descriptor with it.

use crate::common;
use std::net::TcpStream;

use bbq_listen::{Acceptor, Distribution};
use socket2::SockRef;

#[test]
fn accepted_connections_ask_a_silent_peer_whether_it_is_there() {
    let group = common::group("tcp", Distribution::Shared, 1);
    let _client = TcpStream::connect(common::port_of(&group)).unwrap();
    let mut asks = Vec::new();
    let acceptor = Acceptor::new(group.worker_listener(0).unwrap()).unwrap();
    acceptor
        .accept_batch(1, &mut |accepted| asks.push(SockRef::from(&accepted.stream).keepalive().unwrap()))
        .unwrap();
    assert_eq!(asks, [true]);
}
