//! If this fails, a real server that takes what presets and OpenTelemetry make does not understand it, or lacks messages because bbq was
//! killed or the server was away.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use bbq_client::Sender;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{PATIENCE, Server, Setup, assert_balanced, free_ports, pause};

const PART: usize = 1000;
const PARTS: usize = 3;
/// Each way in, and what of its query says so of each message. OpenTelemetry has no query.
const WAYS: [&str; 5] = ["jsonline", "elasticsearch", "loki", "splunk", "otlp"];

/// As docs/sinks/victorialogs.md has it. `extra_fields` marks a message with its way.
fn sinks(port: u16) -> String {
    let sink = |way: &str, path: &str, query: &str| {
        format!(
            "[[sink]]\nname = '{way}'\nspec = 'http://127.0.0.1:{port}/insert/{path}'\nquery = '{query}extra_fields=way={way}'\n"
        )
    };
    [
        "drain_timeout_seconds = 1\n".to_owned(),
        sink(
            "jsonline",
            "jsonline?preset=ndjson",
            "_stream_fields=listener&_time_field=time&_msg_field=message&",
        ),
        sink(
            "elasticsearch",
            "elasticsearch/_bulk?preset=elasticsearch",
            "_stream_fields=listener&_time_field=@timestamp&_msg_field=message&",
        ),
        sink("loki", "loki/api/v1/push?preset=loki", "_msg_field=message&"),
        sink("splunk", "splunk/services/collector/event?preset=splunk", ""),
        format!(
            "[[sink]]\nname = 'otlp'\nspec = 'otlp+http://127.0.0.1:{port}/insert/opentelemetry/v1/logs'\n"
        ),
    ]
    .concat()
}

struct VictoriaLogs {
    port: u16,
    directory: TempDir,
}

/// Killed when dropped.
struct Running(Child);

impl VictoriaLogs {
    fn start(&self) -> Running {
        // The version of `xtask/src/go_server.rs`, which `cargo xtask test` builds.
        let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let program = scratch.parent().expect("target/tmp is in target").join("victoria-logs/victoria-logs");
        assert!(program.exists(), "there is no {}; `cargo xtask test` builds it", program.display());
        let log = File::options().create(true).append(true).open(self.directory.path().join("log"));
        let mut command = Command::new(program);
        command.arg(format!("-httpListenAddr=127.0.0.1:{}", self.port));
        command.arg(format!("-storageDataPath={}", self.directory.path().join("data").display()));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("a log")).spawn();
        let server = Running(child.expect("it starts"));
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(begin.elapsed() < PATIENCE, "VictoriaLogs is not ready");
            pause();
        }
        server
    }

    /// The texts that it has, by way.
    fn texts(&self) -> BTreeMap<String, BTreeSet<String>> {
        let url = format!("http://127.0.0.1:{}/select/logsql/query", self.port);
        let output = Command::new("curl")
            .args(["--silent", "--fail", "--max-time", "60", &url, "-d", "query=*"])
            .output();
        let output = output.expect("curl is there");
        let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let record: Value = serde_json::from_slice(line).expect("JSON");
            let way = record["way"].as_str().unwrap_or("otlp").to_owned();
            let listener =
                ["listener", "event.listener", "bbq.listener"].iter().find_map(|name| record[name].as_str());
            assert!(listener.is_some_and(|listener| listener.starts_with("bbq+tcp:")), "{record}");
            texts.entry(way).or_default().insert(record["_msg"].as_str().expect("a text").to_owned());
        }
        texts
    }
}

impl Running {
    /// SIGTERM: killed, it would lose what it has taken in the last seconds.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).expect("it runs");
        let begin = Instant::now();
        while self.0.try_wait().expect("it was ours").is_none() {
            assert!(begin.elapsed() < PATIENCE, "VictoriaLogs does not end");
            pause();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Waits until no sink has anything to deliver.
fn wait_nothing_queued(server: &Server<'_>) -> Value {
    server.wait_status("delivery by every sink", |status| {
        let sinks = status["sinks"].as_array().expect("a list");
        status["ledger"]["queued"] == 0 && sinks.iter().all(|sink| sink["queued"] == 0)
    })
}

#[test]
fn all_messages_arrive_in_each_way_although_bbq_is_killed_and_the_server_is_away() {
    let victoria =
        VictoriaLogs { port: free_ports(1)[0], directory: tempfile::tempdir().expect("a directory") };
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).config(&sinks(victoria.port));
    setup.set_sinks(&[]);
    let to = format!("bbq://{}", setup.address(0)).parse().expect("an address");
    let sender = Sender::builder().server(to).start().expect("it starts");
    let send = |part: usize| {
        for number in part * PART..(part + 1) * PART {
            sender.send(format!("text {number}").as_bytes()).expect("it has room");
        }
        sender.flush(PATIENCE).expect("the server acknowledges");
    };
    let (running, server) = (victoria.start(), setup.start());
    send(0);
    wait_nothing_queued(&server);
    running.stop();
    send(1);
    server.wait_status("a problem of each sink", |status| {
        status["sinks"].as_array().expect("a list").iter().all(|sink| sink["problem"].is_string())
    });
    server.kill();
    let server = setup.start();
    let running = victoria.start();
    send(2);
    assert_balanced(&wait_nothing_queued(&server));
    let wanted: BTreeSet<String> = (0..PARTS * PART).map(|number| format!("text {number}")).collect();
    let begin = Instant::now();
    // It can be asked for what it has taken a moment later.
    loop {
        let texts = victoria.texts();
        if WAYS.iter().all(|way| texts.get(*way) == Some(&wanted)) {
            break;
        }
        let counts: Vec<_> = texts.iter().map(|(way, texts)| (way, texts.len())).collect();
        assert!(begin.elapsed() < PATIENCE, "of {} it has {counts:?}\n{}", wanted.len(), setup.log());
    }
    sender.close(PATIENCE).expect("everything is acknowledged");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    running.stop();
}
