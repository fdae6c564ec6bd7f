//! If this fails, a server cannot set the socket options that have to be there when a socket is bound.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bbq_listen::{Group, ListenError};
use socket2::SockRef;

const TOS_LOW_DELAY: u32 = 0x10;

#[test]
fn every_socket_has_the_options_of_the_hook_also_those_of_a_group_that_grows() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let options = Group::at("127.0.0.1:0").unwrap().workers(2).before_bind(move |socket| {
        counted.fetch_add(1, Ordering::Relaxed);
        assert_eq!(SockRef::from(&socket).local_addr()?.as_socket().map(|name| name.port()), Some(0));
        SockRef::from(&socket).set_tos_v4(TOS_LOW_DELAY)
    });
    let group = options.open().unwrap();
    group.resize(4).unwrap();
    let marks: Vec<u32> =
        group.sockets().iter().map(|socket| SockRef::from(&**socket).tos_v4().unwrap()).collect();
    assert_eq!(marks, [TOS_LOW_DELAY; 4]);
    assert_eq!(calls.load(Ordering::Relaxed), 4);
}

/// Without the option the system refuses to bind an address of documentation, RFC 5737.
#[test]
fn the_hook_comes_before_the_bind() {
    let elsewhere = || Group::at("192.0.2.1:0").unwrap().workers(2);
    assert!(matches!(elsewhere().open(), Err(ListenError::AddressNotAvailable { .. })));
    let group =
        elsewhere().before_bind(|socket| SockRef::from(&socket).set_freebind_v4(true)).open().unwrap();
    assert_eq!(group.sockets().len(), 2);
}

#[test]
fn an_error_of_the_hook_says_where_it_came_from() {
    let refuse = |_socket: std::os::fd::BorrowedFd<'_>| Err(io::Error::other("no such device"));
    let error = Group::at("127.0.0.1:0").unwrap().before_bind(refuse).open().unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, ListenError::System { .. }) && message.contains("hook before bind"), "{message}");
}
