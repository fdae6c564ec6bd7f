//! If this fails, a unix socket with an abstract name cannot be served, or leaves or touches a file.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;

use bbq_listen::{Acceptor, Address, Group, ListenError, bound_address};

#[test]
fn an_abstract_name_is_served_has_one_owner_and_no_file() {
    let name = format!("bbq-listen-test-{}", std::process::id());
    let options = Group::at(&format!("unix://@{name}")).unwrap().workers(2).unix_mode(0o600);
    let group = options.open().unwrap();
    assert_eq!(group.local_address().abstract_name(), Some(name.as_bytes()));
    assert!(!group.owns_file() && !Path::new(&format!("@{name}")).exists());
    let address = group.local_address().clone();
    assert_eq!(bound_address(group.sockets()[0].as_fd()), Some(address.clone()));
    match options.open().unwrap_err() {
        ListenError::AddressInUse { holder, .. } => {
            assert_eq!(holder.unwrap().pid, std::process::id());
        }
        error => panic!("{error}"),
    }
    let copies = group.sockets().into_iter().map(|socket| socket.as_fd().try_clone_to_owned().unwrap());
    let adopted = Group::adopt(&options, copies.collect()).unwrap();
    drop(group);
    let mut client = UnixStream::connect_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let acceptor = Acceptor::new(adopted.worker_listener(0).unwrap()).unwrap();
    assert_eq!(acceptor.accept_batch(1, &mut drop).unwrap().accepted, 1);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

/// bbq's own configuration goes this way, and has options for files.
#[test]
fn a_text_without_its_transport_is_a_path() {
    assert!(Address::parse("unix", "@name").is_err());
}
