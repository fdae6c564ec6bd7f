//! If this fails, an option of a group is not what its connections or its socket file have.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bbq_listen::{AcceptState, Acceptor, Address, Group, UnixOwner};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt;

/// The next connection of a group of one worker, which waits for it.
fn accepted(group: &Group) -> OwnedFd {
    let socket = &group.sockets()[0];
    poll(&mut [PollFd::new(socket, PollFlags::IN)], None).unwrap();
    let acceptor = Acceptor::new(group.worker_listener(0).unwrap()).unwrap();
    let mut connection = None;
    acceptor.accept_batch(1, &mut |accepted| connection = Some(accepted.stream)).unwrap();
    connection.unwrap()
}

fn connect(group: &Group) -> TcpStream {
    TcpStream::connect(group.local_address().socket_address().unwrap()).unwrap()
}

#[test]
fn connections_inherit_nodelay_keep_alive_and_time_outs() {
    let options = Group::at("127.0.0.1:0").unwrap().workers(1);
    let by_default = options.open().unwrap();
    let _client = connect(&by_default);
    let connection = accepted(&by_default);
    assert!(!sockopt::tcp_nodelay(&connection).unwrap());
    assert_eq!(sockopt::tcp_user_timeout(&connection).unwrap(), 0);
    assert!(sockopt::socket_keepalive(&connection).unwrap());
    assert_eq!(sockopt::tcp_keepidle(&connection).unwrap(), bbq_listen::KEEPALIVE_DEFAULT);

    let set = options.clone().nodelay(true).keepalive(Some(Duration::from_secs(7)));
    let set = set.user_timeout(Some(Duration::from_secs(9))).open().unwrap();
    let _client = connect(&set);
    let connection = accepted(&set);
    assert!(sockopt::tcp_nodelay(&connection).unwrap());
    assert_eq!(sockopt::tcp_keepidle(&connection).unwrap(), Duration::from_secs(7));
    assert_eq!(sockopt::tcp_user_timeout(&connection).unwrap(), 9000);

    let without = options.keepalive(None).open().unwrap();
    let _client = connect(&without);
    assert!(!sockopt::socket_keepalive(accepted(&without)).unwrap());
}

#[test]
fn a_deferred_connection_is_accepted_when_it_has_said_something() {
    let group =
        Group::at("127.0.0.1:0").unwrap().workers(1).defer_accept(Duration::from_secs(60)).open().unwrap();
    let acceptor = Acceptor::new(group.worker_listener(0).unwrap()).unwrap();
    let mut client = connect(&group);
    let outcome = acceptor.accept_batch(1, &mut |_| {}).unwrap();
    assert_eq!((outcome.accepted, outcome.state), (0, AcceptState::Drained));
    client.write_all(b"x").unwrap();
    accepted(&group);
}

#[test]
fn ipv6_may_be_taken_alone() {
    let options = Group::at("[::]:0").unwrap().workers(2);
    for only_v6 in [true, false] {
        let group = options.clone().only_v6(only_v6).open().unwrap();
        for socket in group.sockets() {
            assert_eq!(sockopt::ipv6_v6only(&*socket).unwrap(), only_v6);
        }
    }
}

#[test]
fn a_socket_file_has_the_mode_and_the_owner() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    // Who may not give files away gives this one to itself.
    let mine = std::fs::metadata(directory.path()).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let group_id = if is_root { 4321 } else { mine.gid() };
    let owner = UnixOwner { user: None, group: Some(group_id) };
    let address = format!("unix://{}", path.display());
    let _group = Group::at(&address).unwrap().unix_mode(0o606).unix_owner(owner).open().unwrap();
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o606);
    assert_eq!((metadata.uid(), metadata.gid()), (mine.uid(), group_id));
    UnixStream::connect(&path).unwrap();
}

#[test]
fn a_listener_of_std_is_adopted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let group = Group::at(&address.to_string()).unwrap().workers(1).adopt([listener]).unwrap();
    assert_eq!(group.local_address(), &Address::Tcp(address));
    let _client = connect(&group);
    accepted(&group);
}

#[test]
fn an_address_without_a_transport_is_of_tcp() {
    assert_eq!(Group::at("127.0.0.1:80").unwrap().address, "tcp://127.0.0.1:80".parse().unwrap());
    assert_eq!(Group::at("udp://127.0.0.1:80").unwrap().address, "udp://127.0.0.1:80".parse().unwrap());
    let error = std::io::Error::from(Group::at("127.0.0.1").unwrap_err());
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("no port"), "{error}");
}
