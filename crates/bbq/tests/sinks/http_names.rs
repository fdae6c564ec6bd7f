//! If this fails, a moment without threads ends a server whose sink posts to a host name.

use crate::http::{lines, poster, receiver};
use crate::support::assert_balanced;
use crate::support::fault::Fault;

#[test]
fn a_name_is_resolved_without_a_new_thread() {
    let receiver = receiver("");
    let to = receiver.start();
    let setup = poster(&format!("localhost:{}", receiver.address(0).port()), "/ndjson?format=raw");
    let server = setup.start();
    let fault = Fault::inject(server.pid(), "sink-0", "clone,clone3:error=EAGAIN");
    server.send(0, &lines(0..10));
    assert_balanced(&server.wait_delivered(10));
    to.wait_delivered(10);
    drop(fault);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
