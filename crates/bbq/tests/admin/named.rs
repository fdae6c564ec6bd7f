//! If this fails, somebody who reads the log, /health, `bbq status` or `bbq top` finds a SPEC in place of the name of a sink or a listener.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::support::{BBQ, Setup};

/// What `bbq` prints with these words.
fn told(setup: &Setup, words: &[&str]) -> String {
    let output =
        Command::new(BBQ).args(words).args(["--admin", &setup.admin()]).env("COLUMNS", "300").output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// What a person may ask: /health, the status, and a frame of `bbq top`.
fn views(setup: &Setup, health: String) -> [String; 3] {
    [health, told(setup, &["status"]), told(setup, &["top", "--once", "--interval", "0.2"])]
}

fn write_tokens(setup: &Setup, text: &str) {
    let new = setup.path().join("tokens.new");
    fs::write(&new, text).expect("a file");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).expect("permissions");
    fs::rename(new, setup.path().join("tokens")).expect("renamed");
}

/// A SPEC is told once, beside the name.
fn assert_only_the_start_has_specs(log: &str, specs: &[&str]) {
    for spec in specs {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(spec)).collect();
        let is_start = |line: &&str| line.contains(" listening ") || line.contains(" delivering ");
        assert!(lines.len() == 1 && lines.iter().all(is_start), "{spec}: {lines:#?}");
    }
}

#[test]
fn a_problem_has_the_name_of_its_sink_or_listener() {
    let mut setup = Setup::new(&[
        "lines+tcp://127.0.0.1:{0}?name=app&message_bytes_max=100",
        "http+tcp://127.0.0.1:{1}?name=tills&tokens={dir}/tokens",
    ])
    .config("drain_timeout_seconds = 1\n");
    setup.set_sinks(&["exec:echo the reason >&2; exit 3?name=dead", "file:{dir}/out.log?name=archive"]);
    write_tokens(&setup, "till-4 a-token-of-till-4\n");
    let server = setup.start();
    for both in [
        "listener=\"app\" spec=\"lines+tcp://127.0.0.1:{0}?name=app&message_bytes_max=100\"",
        "sink=\"archive\" spec=\"file:{dir}/out.log?name=archive\"",
    ] {
        server.wait_log(&setup.fill(both));
    }
    server.send(0, format!("a message\n{}\n", "x".repeat(200)).as_bytes());
    server.wait_status("the message", |status| status["sinks"][1]["delivered"] == 1);
    write_tokens(&setup, "till-4 a-token-of-till-4 and more\n");
    server.wait_status("the problems", |status| {
        let told = status["findings"].to_string();
        ["listener app", "listener tills", "sink dead"].iter().all(|subject| told.contains(subject))
    });
    let views = views(&setup, server.health().1);
    for view in &views {
        for says in [
            "sink dead cannot deliver",
            "listener tills accepts the old tokens",
            "listener app: 1 message dropped",
        ] {
            assert!(view.contains(says), "{says}:\n{view}");
        }
        for spec in ["lines+tcp", "http+tcp", "exec:", "file:"] {
            assert!(!view.contains(spec), "{spec}:\n{view}");
        }
    }
    let [_, status, top] = &views;
    assert!(top.contains("any sink delivered 1 "), "{top}");
    for says in ["\nlisten     app (", "\nsink       dead\n", "(delivered by all sinks; by any sink: 1)\n"] {
        assert!(status.contains(says), "{says}:\n{status}");
    }
    for says in [
        "at=\"listener app\"",
        "listener=\"tills\" problem=",
        "the reason sink=\"dead\"",
        "sink=\"dead\" error=",
    ] {
        server.wait_log(says);
    }
    assert_eq!(server.stop(), Some(0));
    assert_only_the_start_has_specs(&setup.log(), &["lines+tcp", "http+tcp", "exec:", "file:"]);
}

/// The name is the SPEC without its options.
#[test]
fn a_sink_and_a_listener_without_a_name_are_told_without_their_options() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?message_bytes_max=100"]);
    setup.set_sinks(&["null:?spool_bytes_max=1GiB"]);
    let server = setup.start();
    assert!(told(&setup, &["sink", "pause", "null:"]).starts_with("paused null:"));
    server.send(0, format!("{}\n", "x".repeat(200)).as_bytes());
    let drop = setup.fill("listener lines+tcp://127.0.0.1:{0}: 1 message dropped (oversize)");
    server.wait_status("the drop", |status| status["notices"].to_string().contains(&drop));
    for view in views(&setup, server.health().1) {
        assert!(view.contains(&drop) && view.contains("sink null: is paused"), "{view}");
        assert!(!view.contains("bytes_max="), "{view}");
    }
    assert_eq!(server.stop(), Some(0));
    assert_only_the_start_has_specs(&setup.log(), &["?message_bytes_max=", "?spool_bytes_max="]);
}
