//! If this fails, a distribution opens other sockets than documented, or does not serve.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};

use crate::support::lineage::Lineage;
use crate::support::{Setup, assert_balanced, refused_start};

const WORKERS: usize = 3;

/// `ss -ltn` or `-lun` counts these inodes.
#[test]
fn each_has_its_sockets_and_serves() {
    for (protocol, distribution, sockets) in [
        ("tcp", "auto", WORKERS),
        ("tcp", "reuseport", WORKERS),
        ("tcp", "shared", 1),
        ("tcp", "accept-mutex", 1),
        ("tcp", "handoff", 1),
        ("tcp", "handoff=fewest", 1),
        ("tcp", "duplicate=2", 2),
        ("udp", "auto", WORKERS),
        ("udp", "reuseport", WORKERS),
        ("udp", "shared", 1),
        ("udp", "duplicate=2", 2),
    ] {
        let spec = format!("lines+{protocol}://127.0.0.1:{{0}}?distribution={distribution}");
        let setup = Setup::new(&[&spec]).with(&["--workers", "3"]);
        let server = Lineage::start(&setup);
        assert_eq!(server.inodes(protocol, setup.ports[0]).len(), sockets, "{protocol} {distribution}");
        let status = server.status();
        let listener = &status["listeners"][0];
        assert_eq!(listener["configured"], distribution);
        assert_eq!(listener["sockets"].as_array().map(Vec::len), Some(sockets), "{listener:#}");
        for number in 0..20 {
            let line = format!("line {number}\n");
            send(protocol, setup.address(0), line.as_bytes());
        }
        assert_balanced(&server.wait_delivered(20));
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
    }
}

/// Each from another port.
fn send(protocol: &str, to: SocketAddr, line: &[u8]) {
    if protocol == "tcp" {
        TcpStream::connect(to).expect("it listens").write_all(line).expect("it reads");
    } else {
        UdpSocket::bind("127.0.0.1:0").expect("a port").send_to(line, to).expect("it listens");
    }
}

#[test]
fn contradictions_are_refused_with_the_reason() {
    for (spec, reason) in [
        ("lines+udp://127.0.0.1:{0}?distribution=accept-mutex", "received, not accepted"),
        ("lines+udp://127.0.0.1:{0}?distribution=handoff", "received, not accepted"),
        ("lines+unix:///tmp/never-made.sock?distribution=duplicate=2", "no SO_REUSEPORT"),
        ("lines+tcp://127.0.0.1:{0}?distribution=shared&steering=cpu", "only reuseport"),
        ("lines+tcp://127.0.0.1:{0}?steering=weights:0,0", "not all 0"),
        ("lines+udp://127.0.0.1:{0}?steering=load", "stay with its worker"),
        ("lines+tcp://127.0.0.1:{0}?distribution=duplicate=0", "duplicate=N"),
        ("lines+tcp://127.0.0.1:{0}?steering=weights:1,2,3", "3 weights for 2 workers"),
    ] {
        let setup = Setup::new(&[spec]).with(&["--workers", "2"]);
        let (code, text) = refused_start(&mut setup.command());
        assert!(code == Some(2) && text.contains(reason), "{spec}: {code:?} {text}");
    }
}
