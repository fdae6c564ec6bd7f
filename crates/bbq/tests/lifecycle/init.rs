//! If this fails, `bbq init` writes a configuration that the server does not take, or replaces one.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::BBQ;

/// Runs `bbq init` in a directory, and answers.
fn init(directory: &Path, arguments: &[&str], answers: &str) -> Output {
    let mut command = Command::new(BBQ);
    command.arg("init").args(arguments).current_dir(directory);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut input = child.stdin.take().expect("a pipe");
    // One that is refused at once may not read all of them.
    let _refused = input.write_all(answers.as_bytes());
    drop(input);
    child.wait_with_output().expect("it ends")
}

#[test]
fn what_it_writes_is_what_was_answered_and_the_server_takes_it() {
    let directory = tempfile::tempdir().expect("a directory");
    for (file, arguments, answers, shown) in [
        ("bbq.toml", &[][..], "", &["listen   syslog+udp://127.0.0.1:5514", "sink     file:"][..]),
        ("y.toml", &["--yes", "y.toml"], "nonsense", &["listen   bbq+tcp://127.0.0.1:7700"]),
        (
            "o.toml",
            &["o.toml"],
            "lines\nall\nnull:\n3GiB\n",
            &["lines+tcp://0.0.0.0:7701", "null:", "3.00 GiB"],
        ),
    ] {
        let output = init(directory.path(), arguments, answers);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(&format!("bbq serve --config {file}")));
        let check = Command::new(BBQ).arg("check").arg(directory.path().join(file)).output();
        let check = String::from_utf8(check.expect("it runs").stdout).expect("a text");
        assert!(shown.iter().all(|shown| check.contains(shown)), "{file}: {check}");
    }
}

#[test]
fn it_replaces_nothing_and_a_wrong_answer_writes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("bbq.toml");
    let output = init(directory.path(), &[], "lines\nall\n/tmp/x\n");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("file:/tmp/x"), "{output:?}");
    assert!(!path.exists());
    fs::write(&path, "mine").expect("a file");
    let output = init(directory.path(), &["--yes"], "");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("already exists"), "{output:?}");
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "mine");
}
