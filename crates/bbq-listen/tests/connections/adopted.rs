//! If this fails, a server that takes sockets over from another serves the wrong ones, gives them to the wrong worker, or
//! removes a file that is not its own; or connections that waited meanwhile are lost.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use bbq_listen::{Acceptor, Distribution, Group, GroupOptions, ListenError};
use rustix::fs::fstat;

fn options(address: &str, workers: usize) -> GroupOptions {
    GroupOptions::new(address.parse().expect("an address"), workers)
}

fn copies(group: &Group) -> Vec<OwnedFd> {
    group.sockets().iter().map(|socket| socket.as_fd().try_clone_to_owned().expect("a copy")).collect()
}

fn inodes(group: &Group) -> Vec<u64> {
    group.sockets().iter().map(|socket| fstat(socket).expect("a socket").st_ino).collect()
}

fn refusal(options: &GroupOptions, sockets: Vec<OwnedFd>) -> String {
    let error = Group::adopt(options, sockets).expect_err("they do not fit");
    assert!(matches!(error, ListenError::Unfit { .. }), "{error}");
    error.to_string()
}

#[test]
fn a_group_moves_with_what_waits_in_it() {
    for (address, workers) in [("tcp://127.0.0.1:0", 3), ("udp://127.0.0.1:0", 3), ("tcp://[::1]:0", 1)] {
        let options = options(address, workers);
        let old = Group::open(&options).expect("it opens");
        let before = inodes(&old);
        let to = old.local_address().clone();
        let waiting = to
            .transport()
            .is_stream()
            .then(|| TcpStream::connect(to.socket_address().expect("it has one")).expect("it listens"));
        let new = Group::adopt(&options, copies(&old)).expect("it fits");
        drop(old);
        assert_eq!(inodes(&new), before, "each at its place");
        assert_eq!((new.local_address(), new.workers()), (&to, workers));
        let expected = if workers == 1 { Distribution::Shared } else { Distribution::Reuseport };
        assert_eq!(new.distribution(), expected);
        let Some(mut waiting) = waiting else { continue };
        let mut accepted = 0;
        for worker_listener in new.worker_listeners() {
            let acceptor = Acceptor::new(worker_listener).expect("an acceptor");
            accepted += acceptor.accept_batch(8, &mut |_| ()).expect("it accepts").accepted;
        }
        assert_eq!(accepted, 1);
        assert_eq!(waiting.read(&mut [0]).expect("closed in order"), 0);
    }
}

#[test]
fn each_distribution_stays_what_it_is() {
    for (distribution, sockets) in [("accept-mutex", 1), ("duplicate=2", 2), ("shared", 1), ("reuseport", 4)]
    {
        let distribution: Distribution = distribution.parse().expect("one of them");
        let options = options("tcp://127.0.0.1:0", 4).distribution(distribution);
        let old = Group::open(&options).expect("it opens");
        let new = Group::adopt(&options, copies(&old)).expect("it fits");
        assert_eq!((new.distribution(), new.sockets().len()), (distribution, sockets));
        assert_eq!(new.fallback(), None);
    }
}

#[test]
fn only_the_owner_removes_the_file_of_a_unix_socket() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let options = options(&format!("unix://{}", path.display()), 2);
    let old = Group::open(&options).expect("it opens");
    let new = Group::adopt(&options, copies(&old)).expect("it fits");
    assert!(old.owns_file() && !new.owns_file());
    old.set_owns_file(false);
    drop(old);
    UnixStream::connect(&path).expect("it is still there");
    new.set_owns_file(true);
    drop(new);
    assert!(!path.exists());
}

/// systemd opens `[::]` for a port without an address.
#[test]
fn a_socket_for_both_families_fits_every_address_of_ipv4() {
    let opened = |only_v6: bool| {
        let bind = Group::at("[::]:0").expect("an address").workers(1).only_v6(only_v6);
        bind.open().expect("it opens")
    };
    let both = opened(false);
    let port = both.local_address().socket_address().expect("it has one").port();
    let ipv4 = options(&format!("tcp://0.0.0.0:{port}"), 2);
    let new = Group::adopt(&ipv4, copies(&both)).expect("it fits");
    assert_eq!(new.local_address(), both.local_address());
    assert_eq!(new.fallback(), Some("one socket was handed over"));
    let findings: Vec<String> = new.diagnose().iter().map(ToString::to_string).collect();
    assert!(
        findings.contains(&"spread by shared instead of auto: one socket was handed over".to_owned()),
        "{findings:?}"
    );
    TcpStream::connect(("127.0.0.1", port)).expect("it takes IPv4");
    let message = refusal(&options("tcp://0.0.0.0:0", 2), copies(&opened(true)));
    assert!(message.contains("another kind"), "{message}");
    let message = refusal(&options("tcp://127.0.0.1:0", 2), copies(&both));
    assert!(message.contains("another kind"), "{message}");
}

#[test]
fn what_does_not_fit_is_refused_with_the_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let bound = listener.local_addr().expect("a name");
    let fd = || OwnedFd::from(listener.try_clone().expect("a copy"));
    let udp = || OwnedFd::from(UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    let quiet = || {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.expect("a socket");
        socket
            .bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().expect("an address").into())
            .expect("bound");
        OwnedFd::from(socket)
    };
    let file = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
    let own = format!("tcp://{bound}");
    for (address, workers, sockets, says) in [
        (own.as_str(), 2, vec![], "there is none"),
        ("tcp://127.0.0.1:1", 2, vec![fd()], bound.to_string().as_str()),
        ("tcp://[::1]:0", 2, vec![fd()], "another kind"),
        ("udp://127.0.0.1:0", 2, vec![fd()], "another kind"),
        ("unix:///run/nobody", 2, vec![fd()], "another kind"),
        ("tcp://127.0.0.1:0", 2, vec![file()], "not a socket"),
        ("tcp://127.0.0.1:0", 1, vec![quiet()], "does not listen"),
        (own.as_str(), 3, vec![fd(), fd()], "there are 2 for 3 workers"),
        (own.as_str(), 2, vec![fd(), fd()], "not all with SO_REUSEPORT"),
        ("udp://127.0.0.1:0", 2, vec![udp(), udp()], "number 1 is bound to"),
    ] {
        let message = refusal(&options(address, workers), sockets);
        assert!(message.contains(says) && message.contains(address), "{says}: {message}");
    }
    TcpStream::connect(bound).expect("whoever handed it over still has it");
}
