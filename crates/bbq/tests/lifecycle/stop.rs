//! If this fails, a stop in order leaves behind what the kernel had taken from clients already, or leaves it in the spool
//! though the sinks were there.

use std::net::UdpSocket;

use crate::support::{Setup, client};

/// More than workers accept before they hear of the stop; fewer than both sockets queue (4,096 each).
const CONNECTIONS: u32 = 6000;
/// They fit into the receive buffer of a system that was never tuned.
const DATAGRAMS: u32 = 200;

#[test]
fn what_waits_in_the_kernel_is_delivered_by_a_stop() {
    // Two also where the process may use one processor.
    let setup =
        Setup::new(&["lines+tcp://127.0.0.1:{0}", "syslog+udp://127.0.0.1:{1}"]).with(&["--workers", "2"]);
    let server = setup.start();
    // While it stands still, clients connect, send and go; the signal is there when it wakes up.
    server.freeze();
    client::short_connections(0..CONNECTIONS, setup.address(0));
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in CONNECTIONS..CONNECTIONS + DATAGRAMS {
        datagrams.send_to(format!("line {number}").as_bytes(), setup.address(1)).unwrap();
    }
    server.signal(libc::SIGTERM);
    server.signal(libc::SIGCONT);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    client::assert_numbered_lines(&setup.written(), 0..CONNECTIONS + DATAGRAMS);
}
