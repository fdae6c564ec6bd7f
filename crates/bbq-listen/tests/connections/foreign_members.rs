//! If this fails, another process takes a share of the group's connections or datagrams and nobody is told, or the
//! group's own sockets are called foreign.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use bbq_listen::{Address, Distribution, Group, GroupOptions, STALL_THRESHOLD_DEFAULT, StallMonitor};
use socket2::{Domain, Protocol, Socket, Type};

/// Ports that the system does not give to clients, and how many are tried until one is free at every address.
const PORTS: std::ops::Range<u16> = 10_000..32_000;
const PORTS_TRIED_MAX: u32 = 50;
/// Longer than a connection takes on a busy machine.
const LOST: Duration = Duration::from_secs(20);

/// Joins with `SO_REUSEPORT`, says so, and stays until its standard input ends.
const JOIN: &str = "
import errno, socket, sys
kind = {'tcp': socket.SOCK_STREAM, 'udp': socket.SOCK_DGRAM}[sys.argv[1]]
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[2] else socket.AF_INET, kind)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
try: s.bind((sys.argv[2], int(sys.argv[3])))
except OSError as error:
    if error.errno != errno.EADDRINUSE: raise
    sys.exit('in use')
if kind == socket.SOCK_STREAM: s.listen(1)
print('joined', flush=True)
sys.stdin.read()
";

/// Another program at the group's port. Ends with its standard input, so also when a test fails.
struct Stranger {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Stranger {
    /// `None` where the kernel does not let it.
    fn tries_to_join(word: &str, host: &str, port: u16) -> Option<Self> {
        let mut command = Command::new("python3");
        command.args(["-c", JOIN, word, host, &port.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let stranger = Self { stdin: child.stdin.take(), child };
        (line == "joined\n").then_some(stranger)
    }

    fn joins(word: &str, host: &str, port: u16) -> Self {
        Self::tries_to_join(word, host, port).expect("it may join")
    }

    fn leaves(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // Has ended, or ends now.
        let _ended = self.child.wait();
    }
}

#[test]
fn a_process_that_joins_is_named_and_one_that_leaves_is_gone() {
    for (word, host) in [("tcp", "127.0.0.1"), ("udp", "127.0.0.1"), ("tcp", "0.0.0.0"), ("udp", "::")] {
        let (group, stranger) = joined(word, host);
        let members = group.foreign_members().unwrap();
        assert_eq!(members.len(), 1, "{word} {host}: {members:?}");
        assert_eq!(
            members[0].address,
            SocketAddr::new(host.parse().unwrap(), common::port_of(&group).port())
        );
        let holder = members[0].holder().unwrap();
        assert_eq!(
            (holder.pid, holder.command.starts_with("python")),
            (stranger.child.id(), true),
            "{holder}"
        );
        stranger.leaves();
        assert_eq!(group.foreign_members().unwrap(), [], "{word} {host}");
        assert_eq!(members[0].holder(), None);
    }
}

/// A group that had no stranger, and one at `host`. At a port of the system's choice a wildcard would find clients of
/// whatever else runs on this machine in its way, also those that have ended, for a minute (TIME_WAIT).
fn joined(word: &str, host: &str) -> (Group, Stranger) {
    for _ in 0..PORTS_TRIED_MAX {
        let random = RandomState::new().hash_one(0) % u64::from(PORTS.end - PORTS.start);
        let address =
            Address::parse(word, &format!("127.0.0.1:{}", u64::from(PORTS.start) + random)).unwrap();
        let options = GroupOptions::new(address, 3).distribution(Distribution::Reuseport);
        let Ok(group) = Group::open(&options) else { continue };
        assert_eq!(group.foreign_members().unwrap(), []);
        if let Some(stranger) = Stranger::tries_to_join(word, host, common::port_of(&group).port()) {
            return (group, stranger);
        }
    }
    panic!("no stranger may join {word} at {host}");
}

/// The kernel's own hash would give it a share.
#[test]
fn a_stranger_that_joins_later_gets_no_connection() {
    for (word, workers, grown) in
        [("auto", 2, 2), ("reuseport", 3, 5), ("reuseport", 1, 2), ("duplicate=2", 3, 3)]
    {
        let group = common::group("tcp", word.parse().unwrap(), workers);
        group.resize(grown).unwrap();
        let to = common::port_of(&group);
        let stranger = Stranger::joins("tcp", "127.0.0.1", to.port());
        assert_eq!(group.foreign_members().unwrap().len(), 1, "{word}");
        // The stranger's queue is short: what comes to it is not connected any more.
        let connect = |_| TcpStream::connect_timeout(&to, LOST).expect("a connection of the group");
        let clients: Vec<TcpStream> = (0..100).map(connect).collect();
        let queued: Vec<u64> = group.sockets().iter().map(|socket| socket.queue().unwrap().queue).collect();
        assert_eq!(queued.iter().sum::<u64>(), clients.len() as u64, "{word}: {queued:?}");
        assert!(queued.iter().all(|queue| *queue > 0), "{word}: {queued:?}");
        stranger.leaves();
    }
}

#[test]
fn a_monitor_tells_of_each_stranger_once() {
    let group = common::group("tcp", Distribution::Reuseport, 2);
    let (tell, told) = mpsc::sync_channel(8);
    let monitor = StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, drop).unwrap();
    monitor.on_foreign_member(move |member| tell.send(member).unwrap());
    // Those of the group are no strangers, also while it grows.
    group.resize(8).unwrap();
    let to = common::port_of(&group);
    let mut strangers = Vec::new();
    for _ in 0..2 {
        // The first is still there when the second is looked for.
        let stranger = Stranger::joins("tcp", "127.0.0.1", to.port());
        let member = told.recv_timeout(LOST).unwrap();
        assert_eq!((member.address, member.holder().unwrap().pid), (to, stranger.child.id()));
        strangers.push(stranger);
    }
    strangers.into_iter().for_each(Stranger::leaves);
    drop(monitor);
    assert!(told.recv().is_err(), "told twice");
}

#[test]
fn neighbours_are_no_members() {
    let group = common::group("tcp", Distribution::Reuseport, 2);
    let port = common::port_of(&group).port();
    let _other_address = Stranger::joins("tcp", "127.0.0.2", port);
    let _other_protocol = Stranger::joins("udp", "127.0.0.1", port);
    assert_eq!(group.foreign_members().unwrap(), []);
}

/// The descriptors of a child are its own, the sockets are the group's.
#[test]
fn a_child_process_that_inherited_the_sockets_is_no_stranger() {
    let group = common::group("tcp", Distribution::Reuseport, 2);
    let inherited = group.sockets()[0].as_fd().try_clone_to_owned().unwrap();
    // It lives as long as its standard input, writes nothing, and is asked for nothing.
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(inherited).spawn().unwrap();
    let own = rustix::fs::fstat(&group.sockets()[0]).unwrap().st_ino;
    let of_child = std::fs::read_link(format!("/proc/{}/fd/1", child.id())).unwrap();
    assert_eq!(of_child.to_str().unwrap(), format!("socket:[{own}]"));
    assert_eq!(group.foreign_members().unwrap(), []);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// As after a resize, or two groups by mistake: whoever it is, it takes a share.
#[test]
fn a_socket_of_this_process_beside_the_group_is_seen() {
    let group = common::group("tcp", Distribution::Reuseport, 2);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
    socket.set_reuse_port(true).unwrap();
    socket.bind(&common::port_of(&group).into()).unwrap();
    assert_eq!(group.foreign_members().unwrap(), [], "bound, and takes nothing yet");
    socket.listen(1).unwrap();
    let members = group.foreign_members().unwrap();
    assert_eq!(members.len(), 1, "{members:?}");
    assert_eq!(members[0].holder().unwrap().pid, std::process::id());
    // Closed it would live on for a moment in a child that another test is just starting.
    socket.shutdown(Shutdown::Both).unwrap();
    assert_eq!(group.foreign_members().unwrap(), []);
}

#[test]
fn a_path_has_no_strangers() {
    let directory = tempfile::tempdir().unwrap();
    let address = Address::Unix(directory.path().join("socket"));
    let group = Group::open(&GroupOptions::new(address, 1)).unwrap();
    assert_eq!(group.foreign_members().unwrap(), []);
}
