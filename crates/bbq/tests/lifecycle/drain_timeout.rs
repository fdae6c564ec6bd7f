//! If this fails, a server with the longest `drain_timeout_seconds` does not stop in order.

use crate::support::Setup;

#[test]
fn the_longest_patience_is_no_mistake() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--config", "{dir}/bbq.toml"]);
    let seconds = i64::MAX;
    std::fs::write(setup.path().join("bbq.toml"), format!("drain_timeout_seconds = {seconds}\n")).unwrap();
    let server = setup.start();
    server.send(0, b"one\n");
    server.wait_delivered(1);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
