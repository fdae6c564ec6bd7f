//! If this fails, a moment without threads ends a server whose sink sends to a host name.

use crate::http::{lines, poster, receiver};
use crate::support::fault::Fault;
use crate::support::{Setup, assert_balanced};

/// The sink's thread can start no other while it sends.
fn sends_without_a_new_thread(setup: &Setup, receiver: &Setup) {
    let to = receiver.start();
    let server = setup.start();
    let fault = Fault::inject(server.pid(), "sink-0", "clone,clone3:error=EAGAIN");
    server.send(0, &lines(0..10));
    assert_balanced(&server.wait_delivered(10));
    to.wait_delivered(10);
    drop(fault);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn a_name_is_resolved_without_a_new_thread() {
    let receiver = receiver("");
    let to = format!("localhost:{}", receiver.address(0).port());
    sends_without_a_new_thread(&poster(&to, "/ndjson?format=raw"), &receiver);
}

#[test]
fn the_name_of_another_bbq_server_is_resolved_without_a_new_thread() {
    let receiver = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    setup.set_sinks(&[&format!("bbq://localhost:{}", receiver.address(0).port())]);
    sends_without_a_new_thread(&setup, &receiver);
}
