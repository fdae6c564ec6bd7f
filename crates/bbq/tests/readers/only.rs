//! If this fails, a server that only reads files needs a listener.

use std::fs;

use crate::files::{Log, assert_each_once, logs};
use crate::support::{Setup, refused_start};

#[test]
fn a_server_may_have_readers_and_no_listener() {
    let setup = Setup::new(&[]).with(&["--config", "{dir}/bbq.toml"]);
    let write = |text: &str| fs::write(setup.path().join("bbq.toml"), text).unwrap();
    write(&format!("listen = []\nread = [\"file:{}/*.log\"]\n", logs(&setup).display()));
    let mut log = Log::create(&logs(&setup), "app");
    log.write(100);
    let server = setup.start();
    let status = server.wait_delivered(log.lines);
    assert_eq!(status["listeners"].as_array().map(Vec::len), Some(0), "{status:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_each_once(&setup, &[&log]);
    write("listen = []\n");
    let (code, text) = refused_start(&mut setup.command());
    assert!(code == Some(2) && text.contains("listen has 0"), "{code:?} {text}");
}
