//! If this fails, a variable of the environment does not configure the server, or a mistake in one is not told by its name.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use bbq_server::config::{FILE_KEYS, variable_of};
use serde_json::Value;

use crate::support::{BBQ, Server, Setup, refused_start};

/// Starts `bbq serve` with these options, and variables in which placeholders are filled.
fn serve<'a>(setup: &'a Setup, options: &[&str], variables: &[(&str, &str)]) -> Server<'a> {
    let log = fs::File::create(setup.path().join("log")).expect("a log");
    let mut command = Command::new(BBQ);
    command.arg("serve").args(options).current_dir(setup.path()).env("NO_COLOR", "1");
    command.envs(variables.iter().map(|(name, value)| (name, setup.fill(value))));
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("it starts");
    let server = Server { setup, child };
    setup.wait_ready();
    server
}

/// The value of a key in the configuration in force.
fn in_force(setup: &Setup, key: &str) -> Value {
    let mut stream = TcpStream::connect(setup.admin()).expect("the admin listens");
    let host = setup.admin();
    write!(stream, "GET /configuration HTTP/1.0\r\nHost: {host}\r\n\r\n").expect("it reads");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("it answers");
    let (_, body) = response.split_once("\r\n\r\n").expect("a body");
    let body: Value = serde_json::from_str(body).expect("JSON");
    let keys = body["keys"].as_array().unwrap_or_else(|| panic!("no keys in {body:#}"));
    keys.iter().find(|known| known["key"] == key).expect("it is there")["value"].clone()
}

#[test]
fn variables_alone_configure_a_server_and_unknown_ones_are_told() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}"]);
    let server = serve(
        &setup,
        &[],
        &[
            ("BBQ_LISTEN", "lines+tcp://127.0.0.1:{0}; lines+tcp://127.0.0.1:{1}?name=second"),
            ("BBQ_SINK", "file:{dir}/out.log\nnull:?name=nothing\n"),
            ("BBQ_DATA", "{dir}/data"),
            ("BBQ_ADMIN", "127.0.0.1:{2}"),
            ("BBQ_WORKERS", "1"),
            ("BBQ_SPOOL_BYTES_MAX", "3GiB"),
            ("BBQ_DRAIN_TIMEOUT_SECONDS", ""),
            ("BBQ_WORKER", "2"),
            ("BBQ_TOKEN", "of-a-client-that-runs-here"),
            ("BBQ_PORT_7700_TCP_ADDR", "10.0.0.1"),
        ],
    );
    server.send(0, b"one\n");
    server.send(1, b"two\n");
    let status = server.wait_delivered(2);
    assert_eq!(status["listeners"][1]["name"], "second", "{status:#}");
    assert_eq!(status["sinks"][1]["name"], "nothing", "{status:#}");
    assert_eq!(status["workers"].as_array().map(Vec::len), Some(1), "{status:#}");
    assert_eq!(status["spool"]["bytes_max"], 3_u64 << 30, "{status:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let log = setup.log();
    assert!(log.contains("BBQ_WORKER has no effect") && log.contains("did you mean BBQ_WORKERS?"), "{log}");
    for quiet in ["BBQ_TOKEN", "BBQ_PORT", "BBQ_DRAIN", "BBQ_DATA has"] {
        assert!(!log.contains(quiet), "{quiet}: {log}");
    }
}

#[test]
fn a_reload_reads_the_file_and_the_variables_still_override_it() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}"]);
    let path = setup.path().join("bbq.toml");
    let file = |listen: &str, more: &str| {
        let text = format!(
            "data = \"data\"\nsink = [\"file:out.log\"]\nadmin = \"127.0.0.1:{{2}}\"\nlisten = [{listen}]\n{more}"
        );
        fs::write(&path, setup.fill(&text)).expect("a file");
    };
    file("\"lines+tcp://127.0.0.1:{0}\"", "");
    let variables = [("BBQ_CONFIG", "{dir}/bbq.toml"), ("BBQ_SPOOL_FLUSH_INTERVAL_MS", "7")];
    let server = serve(&setup, &["--workers", "2"], &variables);
    assert_eq!(in_force(&setup, "spool.flush_interval_ms"), "7");
    file(
        "\"lines+tcp://127.0.0.1:{0}\", \"lines+tcp://127.0.0.1:{1}\"",
        "drain_timeout_seconds = 5\n[spool]\nflush_interval_ms = 9\n",
    );
    server.signal(libc::SIGHUP);
    server.wait_status("the new listener", |status| {
        status["listeners"].as_array().is_some_and(|listeners| listeners.len() == 2)
    });
    assert_eq!(in_force(&setup, "spool.flush_interval_ms"), "7");
    assert_eq!(in_force(&setup, "drain_timeout_seconds"), "5");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn check_reads_the_file_that_serve_would_read() {
    let directory = tempfile::tempdir().expect("a directory");
    for (file, workers) in [("one.toml", 3), ("two.toml", 5)] {
        fs::write(directory.path().join(file), format!("workers = {workers}\n")).expect("a file");
    }
    for (arguments, variables, says, workers) in [
        (&["check", "one.toml"][..], &[("BBQ_CONFIG", "")][..], "one.toml is valid.", Some("workers  3")),
        (&["check", "one.toml"], &[("BBQ_CONFIG", "two.toml")], "one.toml is valid.", Some("workers  3")),
        (&["check"], &[("BBQ_CONFIG", "two.toml")], "two.toml, the file in BBQ_CONFIG,", Some("workers  5")),
        (&["config", "check"], &[("BBQ_CONFIG", "two.toml")], "two.toml, the", Some("workers  5")),
        (&["check"], &[("BBQ_CONFIG", ""), ("BBQ_WORKERS", "7")], "the defaults", Some("workers  7")),
        (&["check"], &[("BBQ_WORKER", "7")], "BBQ_WORKER has no effect", None),
    ] {
        let mut command = Command::new(BBQ);
        command.args(arguments).current_dir(directory.path()).env_remove("BBQ_CONFIG");
        let (code, text) = refused_start(command.envs(variables.iter().copied()));
        assert_eq!(code, Some(0), "{arguments:?}: {text}");
        assert!(text.contains(says) && text.contains(workers.unwrap_or_default()), "{arguments:?}: {text}");
    }
}

#[test]
fn each_key_can_be_given_and_a_mistake_names_the_variable() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    fs::write(path("bbq.toml"), "# defaults\n").expect("a file");
    fs::write(path("tokens"), "0123456789abcdef\n").expect("a file");
    let check = |variable: &str, value: &str| {
        let mut command = Command::new(BBQ);
        refused_start(command.args(["check", &path("bbq.toml")]).env(variable, value))
    };
    for key in FILE_KEYS.iter().map(|known| known.option.key) {
        let tokens = path("tokens");
        let (right, wrong) = match key {
            "listen" => {
                ("lines+tcp://127.0.0.1:1;syslog+udp://127.0.0.1:1", "lines+tcp://127.0.0.1:1;nonsense")
            }
            "read" => ("file:/nowhere/a.log;file:/nowhere/b.log", "file:/nowhere/a.log;nonsense"),
            "sink" => ("exec:sh -c 'cat; true'\n", "exec:true;nonsense"),
            "data" | "steering_pins" => ("elsewhere", ""),
            "distribution" => ("shared", "fair"),
            "admin" | "probe" => ("off", "everywhere"),
            "admin_token_file" => (tokens.as_str(), "/nowhere"),
            "unfinished_bytes_max" => ("1TiB", "64"),
            "spool.bytes_max" => ("100GiB", "many"),
            "spool.segment_bytes" => ("1MiB", "1KiB"),
            _ => ("20", "-1"),
        };
        let variable = variable_of(key);
        let (code, text) = check(&variable, right);
        assert_eq!(code, Some(0), "{variable}={right}: {text}");
        if wrong.is_empty() {
            continue;
        }
        let (code, text) = check(&variable, wrong);
        assert_eq!(code, Some(2), "{variable}={wrong}: {text}");
        assert!(text.contains(&format!("environment variable {variable}: ")), "{variable}={wrong}: {text}");
    }
}
