//! If this fails, a system that refuses SO_REUSEPORT (ENOPROTOOPT: Linux before 3.9) keeps the server from starting, or the server
//! does not report that its workers share one socket instead.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::process::{Command, Stdio};

use crate::support::{BBQ, Setup, assert_balanced};

/// `setsockopt` calls of a start up to and including the first for SO_REUSEPORT.
fn ordinal(setup: &Setup) -> usize {
    let log = setup.path().join("calls");
    let mut traced = strace(setup, &["-o", log.to_str().expect("UTF-8")]);
    let mut child = traced.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("strace runs");
    let ready = Command::new(BBQ).args(["status", "--wait", "30", "--admin", &setup.admin()]).output();
    assert!(ready.expect("status runs").status.success());
    let calls = std::fs::read_to_string(&log).expect("a log");
    child.kill().expect("it runs");
    child.wait().expect("it was ours");
    let calls: Vec<&str> = calls.lines().filter(|line| line.contains("setsockopt(")).collect();
    1 + calls.iter().position(|call| call.contains("SO_REUSEPORT")).unwrap_or_else(|| panic!("{calls:#?}"))
}

/// The tracer is a process beside the server (-D), so that what is started here is the server.
fn strace(setup: &Setup, options: &[&str]) -> Command {
    let server = setup.command();
    let mut command = Command::new("strace");
    command.args(["-D", "-qq", "-e", "trace=setsockopt"]).args(options).arg(server.get_program());
    command.args(server.get_args()).current_dir(setup.path()).env("NO_COLOR", "1");
    command
}

#[test]
fn one_socket_is_shared_and_that_is_said() {
    for distribution in ["auto", "reuseport", "duplicate=2"] {
        let spec = format!("lines+tcp://127.0.0.1:{{0}}?distribution={distribution}");
        let setup = Setup::new(&[&spec]).with(&["--workers", "2"]);
        let refused = format!("inject=setsockopt:error=ENOPROTOOPT:when={}", ordinal(&setup));
        let setup = setup.prefix(&[
            "strace",
            "-D",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "trace=setsockopt",
            "-e",
            &refused,
        ]);
        let server = setup.start();
        server.send(0, b"arrives\n");
        let status = server.wait_delivered(1);
        assert_balanced(&status);
        let listener = &status["listeners"][0];
        assert_eq!(
            (&listener["configured"], &listener["distribution"]),
            (&distribution.into(), &"shared".into())
        );
        assert_eq!(listener["sockets"].as_array().map(Vec::len), Some(1), "{listener:#}");
        let fallback = listener["fallback"].as_str().expect("a reason");
        assert!(fallback.contains("no SO_REUSEPORT (Protocol not available"), "{fallback}");
        setup.wait_log("no SO_REUSEPORT");
        assert_eq!(setup.log().matches("no SO_REUSEPORT").count(), 1, "{}", setup.log());
    }
}
