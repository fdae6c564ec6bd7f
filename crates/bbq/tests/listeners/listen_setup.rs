//! If this fails, `bbq listen-setup` does not give a server the programs that it steers by, or its misuse is not explained.
//!
//! It needs root, and does little without: to mount a file system of type bpf, and to load programs.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::lineage::Lineage;
use crate::support::{Setup, free_ports};

fn listen_setup(arguments: &[&str], pins: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bbq"));
    command.arg("listen-setup").args(arguments).arg("--pins").arg(pins).output().expect("it runs")
}

fn says(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

#[test]
fn a_server_takes_what_was_pinned_for_it() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut setup = Setup::new(&[]);
    setup.ports = free_ports(2);
    let pins = setup.path().join("pins");
    let output = listen_setup(&["--programs", "2"], &pins);
    assert!(output.status.success(), "{}", says(&output));

    let spec = setup.fill("lines+tcp://127.0.0.1:{0}?distribution=reuseport&steering=load");
    let text =
        format!("listen = [{spec:?}]\nworkers = 2\nsteering_pins = {:?}\n", pins.display().to_string());
    fs::write(setup.path().join("bbq.toml"), text).expect("a configuration");
    let setup = setup.with(&["--config", "{dir}/bbq.toml"]);
    let mut server = Lineage::start(&setup);
    let steering = |server: &Lineage<'_>| server.status()["listeners"][0]["steering"].clone();
    assert_eq!(steering(&server), "load by a pinned program");
    // The old program has one until it ends, so the new one takes the other.
    server.upgrade();
    assert_eq!(steering(&server), "load by a pinned program");
    assert_eq!(server.stop(), Some(0));

    assert!(listen_setup(&["--remove"], &pins).status.success());
    assert!(!pins.exists());
}

#[test]
fn misuse_is_explained() {
    let directory = tempfile::tempdir().expect("a directory");
    let pins = directory.path().join("missing/pins");
    for (arguments, code, explains) in [
        (&["--programs", "0"][..], 2, "1 to 256"),
        (&["--user", "no such user"], 2, "--user: this system has no \"no such user\""),
        (&["--group", "no such group"], 2, "--group: this system has no"),
        (&[], 1, "cannot create "),
    ] {
        let output = listen_setup(arguments, &pins);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", says(&output));
        assert!(says(&output).contains(explains), "{arguments:?}: {}", says(&output));
    }
}
