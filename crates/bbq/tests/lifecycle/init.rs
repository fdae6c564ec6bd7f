//! If this fails, `bbq init` writes a configuration that the server does not take, or replaces one.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{BBQ, Setup};

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

#[test]
fn an_agent_reads_its_host_and_passes_it_on_over_a_restart() {
    let centre = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let mut agent = Setup::new(&[]).with(&["--config", "agent.toml"]);
    agent.set_sinks(&[]);
    let log = agent.path().join("app.log");
    let answers = format!(
        "files,containers\n{}/*.log*\nbbq://{}\n\nagent-data\n1GiB\n",
        agent.path().display(),
        centre.address(0)
    );
    let output = init(agent.path(), &["--agent", "agent.toml"], &answers);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("bbq check agent.toml") && said.contains("bbq serve --config agent.toml"),
        "{said}"
    );
    let check = Command::new(BBQ).args(["check", "agent.toml"]).current_dir(agent.path()).output();
    let check = String::from_utf8(check.expect("it runs").stdout).expect("a text");
    assert!(check.contains("agent-data") && check.contains("1.00 GiB"), "{check}");
    let to = centre.start();
    let mut written = String::new();
    for run in 1..=2_u64 {
        let line = format!("line {run}\n");
        written += &line;
        fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("a file");
        let server = agent.start();
        to.wait_delivered(run);
        let status = server.wait_status("the centre has it", |status| status["sinks"][0]["queued"] == 0);
        let readers = status["readers"].as_array().expect("readers");
        let names: Vec<&str> = readers.iter().filter_map(|reader| reader["name"].as_str()).collect();
        assert_eq!((names, &status["sinks"][0]["name"]), (vec!["files", "containers"], &"centre".into()));
        assert_eq!(server.stop(), Some(0), "{}", agent.log());
    }
    assert_eq!(centre.written(), written.as_bytes());
}
