//! If this fails, a server on axum-server cannot use the socket of a group, or loses the first requests of clients when it stops.

use std::io::Write;

use rustix::process::{Signal, kill_process};

use crate::example::{Example, command};
use crate::late::{GET, HTTP, begins, catching};

#[test]
fn it_answers_and_a_client_whose_request_comes_behind_the_signal_gets_its_answer() {
    let server = catching(Example::spawn(command("axum_server").arg("127.0.0.1:0")));
    let mut before = server.connect();
    before.write_all(GET).unwrap();
    assert!(begins(&mut before, HTTP.1));
    // Accepted before the signal, as the kernel's queue keeps the order.
    let (mut late, mut behind) = (server.connect(), server.connect());
    behind.write_all(GET).unwrap();
    assert!(begins(&mut behind, HTTP.1));
    kill_process(server.pid, Signal::TERM).unwrap();
    late.write_all(GET).unwrap();
    assert!(begins(&mut late, HTTP.1));
    assert!(server.wait().success);
}
