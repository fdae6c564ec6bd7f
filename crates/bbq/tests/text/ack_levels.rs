//! If this fails, a sender waits for ever for an acknowledgement that it requested.

use std::process::Command;

use crate::support::{BBQ, Setup, run};

#[test]
fn a_sender_gets_what_it_asked_for_at_every_level() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let address = format!("bbq://{}", setup.address(0));
    for (count, level) in (1..).zip(["durable", "received", "none"]) {
        run(Command::new(BBQ).args(["send", "--to", &address, "--ack", level]), b"one\n");
        server.wait_delivered(count);
    }
}
