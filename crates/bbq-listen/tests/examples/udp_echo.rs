//! If this fails, `udp_echo` loses datagrams that find room, or does not end by SIGTERM.

use std::net::UdpSocket;

use crate::example::{ANSWER_TIMEOUT, Example, command};
use crate::late::catching;

#[test]
fn each_datagram_comes_back_and_sigterm_ends_it() {
    let server = catching(Example::spawn(command("udp_echo").arg("127.0.0.1:0")));
    for client in 0..8 {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server.address).unwrap();
        socket.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        for number in 0..20_u8 {
            let sent = [client, number];
            socket.send(&sent).unwrap();
            let mut received = [0; 3];
            assert_eq!((socket.recv(&mut received).unwrap(), &received[..2]), (2, &sent[..]));
        }
    }
    assert!(server.terminate().success);
}
