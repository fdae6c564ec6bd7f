//! If this fails, a server under systemd does not take the sockets that it is given, or systemd does not learn the server's state.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixDatagram, UnixStream};

use crate::support::lineage::Lineage;
use crate::support::{PATIENCE, Setup, refused_start};
use rustix::process::Signal;

/// What systemd does for a socket unit: sd_listen_fds(3).
const LAUNCHER: &str = r#"
import os, socket, sys
wanted, program = sys.argv[1:sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1:]
sockets = []
for spec in wanted:
    kind, where = spec.split("=")
    family = socket.AF_UNIX if kind.startswith("unix") else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
    if kind == "tcp":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(where if kind == "unix" else ("127.0.0.1", int(where)))
    if kind != "udp":
        s.listen(64)
    sockets.append(s)
for i, s in enumerate(sockets):
    os.dup2(s.fileno(), 100 + i)
for i in range(len(sockets)):
    os.dup2(100 + i, 3 + i)
    os.close(100 + i)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(sockets)), LISTEN_FDNAMES=":".join(["bbq"] * len(sockets)))
os.execv(program[0], program)
"#;

const LISTEN: [&str; 4] = [
    "lines+tcp://127.0.0.1:{0}",
    "lines+udp://127.0.0.1:{1}",
    "lines+unix://{dir}/socket",
    "whole+tcp://127.0.0.1:{3}",
];

/// Starts the server by a launcher that opens these sockets.
fn activated(sockets: &[&str]) -> Setup {
    let setup = Setup::new(&LISTEN).with(&["--workers", "2"]);
    let notify = format!("NOTIFY_SOCKET={}", setup.path().join("notify").display());
    let mut words =
        vec!["env".to_owned(), notify, "python3".to_owned(), "-c".to_owned(), LAUNCHER.to_owned()];
    words.extend(sockets.iter().map(|socket| setup.fill(socket)));
    words.push("--".to_owned());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    setup.prefix(&words)
}

fn heard(from: &UnixDatagram) -> String {
    let mut bytes = [0; 256];
    loop {
        match from.recv(&mut bytes) {
            Ok(length) => return String::from_utf8_lossy(&bytes[..length]).into_owned(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("nothing is said: {error}"),
        }
    }
}

#[test]
fn sockets_of_the_service_manager_are_served_and_it_is_told() {
    let setup = activated(&["tcp={0}", "udp={1}", "unix={dir}/socket", "tcp={4}"]);
    let manager = UnixDatagram::bind(setup.path().join("notify")).expect("a socket");
    manager.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut server = Lineage::start(&setup);
    assert_eq!(heard(&manager), "READY=1");
    for port in [setup.ports[0], setup.ports[4]] {
        assert_eq!(server.inodes("tcp", port).len(), 1, "the one that was handed over");
    }
    let listener = &server.status()["listeners"][0];
    assert_eq!(listener["distribution"], "shared", "{listener:#}");
    server.signal(Signal::HUP);
    assert!(heard(&manager).starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(heard(&manager), "READY=1");
    server.upgrade();
    assert_eq!(heard(&manager), format!("MAINPID={}", server.pid()));
    assert_eq!(heard(&manager), "READY=1");
    TcpStream::connect(setup.address(0)).expect("it listens").write_all(b"tcp\n").expect("it reads");
    let socket = setup.path().join("socket");
    UnixStream::connect(&socket).expect("it listens").write_all(b"unix\n").expect("it reads");
    server.wait_delivered(2);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_eq!(heard(&manager), "STOPPING=1");
    assert!(socket.exists(), "it is the service manager's to remove");
}

#[test]
fn a_socket_that_no_listener_names_is_refused() {
    let setup = activated(&["tcp={0}", "tcp={2}"]);
    let (code, text) = refused_start(&mut setup.command());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(&format!("tcp://127.0.0.1:{}", setup.ports[2])), "{text}");
    assert!(text.contains("socket unit"), "{text}");
}
