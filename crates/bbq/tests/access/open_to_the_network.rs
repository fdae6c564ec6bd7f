//! If this fails, other machines can ask the admin without a token, or nobody is told that they can send without one.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{BBQ, Server, Setup, refused_start, run};

const TOKEN: &str = "token-of-the-monitoring";

fn status(setup: &Setup, more: &[&str]) -> Output {
    let mut command = Command::new(BBQ);
    command.args(["status", "--admin", &setup.admin()]).args(more).output().expect("it runs")
}

#[test]
fn the_admin_answers_only_who_shows_a_token() {
    let setup = Setup::new(&["lines+tcp://0.0.0.0:{0}", "lines+tcp://127.0.0.1:{1}"]);
    let (tokens, wrong) = (setup.path().join("tokens"), setup.path().join("wrong").display().to_string());
    fs::write(&tokens, format!("monitoring {TOKEN}\n")).expect("a file");
    fs::write(setup.path().join("one"), TOKEN).expect("a file");
    fs::write(&wrong, "another-token-0123").expect("a file");
    let right = setup.path().join("one").display().to_string();
    let setup = setup.config(&format!("admin_token_file = \"{}\"\n", tokens.display()));
    let log = fs::File::create(setup.path().join("log")).expect("a log");
    let child = setup.command().stdout(Stdio::null()).stderr(log).spawn().expect("it starts");
    let server = Server { setup: &setup, child };
    let answer = status(&setup, &["--wait", "30", "--json", "--token-file", &right]);
    assert!(answer.status.success(), "{answer:?}\n{}", setup.log());
    let answer: Value = serde_json::from_slice(&answer.stdout).expect("JSON");
    // The listener on loopback is none.
    let warnings = answer["warnings"].as_array().expect("a list");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let warning = warnings[0].as_str().expect("text");
    assert!(warning.contains("0.0.0.0") && warning.contains("is open to the network"), "{warning}");
    setup.wait_log(warning);
    assert_eq!(setup.log().matches(warning).count(), 1, "{}", setup.log());
    for (more, says) in [(&[][..], "asks for a token"), (&["--token-file", &wrong], "asks for another token")]
    {
        let answer = status(&setup, more);
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert_eq!(answer.status.code(), Some(1), "{said}");
        assert!(said.contains(says) && said.contains("--token-file"), "{said}");
        assert!(!said.contains(TOKEN) && !said.contains("another-token"), "{said}");
    }
    let health = format!("http://{}/health", setup.admin());
    let authorization = format!("Authorization: Bearer {TOKEN}");
    for (more, code) in [(&[][..], "401"), (&["--header", &authorization], "200")] {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}", &health]).args(more);
        assert_eq!(run(&mut curl, b"").stdout, code.as_bytes());
    }
    assert!(!setup.log().contains(TOKEN));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn an_admin_that_other_machines_can_reach_needs_a_token() {
    let setup = Setup::new(&[]);
    let mut command = Command::new(BBQ);
    command.args(["serve", "--listen", "lines+unix:///nowhere/socket", "--admin", "0.0.0.0:1"]);
    let (code, said) = refused_start(command.current_dir(setup.path()));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("other machines can reach") && said.contains("admin_token_file"), "{said}");
}
