//! If this fails, an example of the directory `examples` does not work for somebody who runs it, or leaves processes or files behind.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;
use tempfile::TempDir;

use super::kafka_broker::{jars, shared};
use super::nats_server::{Nats, new_server};
use super::s3_server;
use crate::support::BBQ;

const COUNT: &str = "5000";
const ALL_THERE: &str = "5000 messages are there, each once and in order";

/// The directory for temporary files of a script.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().expect("a directory"))
    }

    fn run(&self, script: &str, variables: &[(&str, &str)]) -> Output {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(script);
        let mut command = Command::new(path);
        command.env("BBQ", BBQ).env("TMPDIR", self.0.path()).env("COUNT", COUNT);
        let done = command.envs(variables.iter().copied()).output().expect("the script starts");
        let left: Vec<_> = fs::read_dir(self.0.path()).expect("it is there").collect();
        assert!(left.is_empty(), "{left:?} stays behind\n{done:?}");
        assert_eq!(self.processes(), Vec::<PathBuf>::new(), "processes go on\n{done:?}");
        done
    }

    /// The processes that work in the directory, also if it was removed.
    fn processes(&self) -> Vec<PathBuf> {
        let all = fs::read_dir("/proc").expect("it is there").flatten().map(|entry| entry.path());
        let works_here = |process: &PathBuf| {
            fs::read_link(process.join("cwd")).is_ok_and(|directory| directory.starts_with(self.0.path()))
        };
        all.filter(works_here).collect()
    }
}

fn assert_all_there(done: &Output) {
    assert!(done.status.success(), "{done:?}");
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(text.lines().any(|line| line == ALL_THERE), "{done:?}");
}

fn assert_refused(done: &Output, words: &[&str]) {
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let text = String::from_utf8_lossy(&done.stderr);
    for words in words {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn messages_go_through_two_servers_to_a_jetstream_that_the_script_starts() {
    let program = new_server();
    let done = Scratch::new().run("jetstream.sh", &[("NATS_SERVER", &program.to_string_lossy())]);
    assert_all_there(&done);
}

#[test]
fn a_jetstream_that_was_there_before_stays_as_it_was() {
    let nats = Nats::new(new_server());
    let broker = nats.start();
    let done = Scratch::new().run("jetstream.sh", &[("NATS", &nats.address())]);
    assert_all_there(&done);
    assert_eq!(broker.client().api("STREAM.NAMES", &json!({}))["total"], 0);
}

#[test]
fn messages_go_through_two_servers_to_a_bucket() {
    let program = s3_server::program();
    assert_all_there(&Scratch::new().run("s3.sh", &[("VERSITYGW", &program.to_string_lossy())]));
}

/// With a broker of its own, as the jars lie in a Kafka that somebody has unpacked.
#[test]
fn messages_go_through_two_servers_to_a_kafka_that_the_script_starts() {
    let home = tempfile::tempdir().expect("a directory");
    symlink(jars(), home.path().join("libs")).expect("a link");
    let done = Scratch::new().run("kafka.sh", &[("KAFKA_HOME", &home.path().to_string_lossy())]);
    assert_all_there(&done);
}

#[test]
fn a_kafka_that_was_there_before_stays_as_it_was() {
    let home = tempfile::tempdir().expect("a directory");
    symlink(jars(), home.path().join("libs")).expect("a link");
    let kafka = shared();
    let (home, address) = (home.path().to_string_lossy().into_owned(), kafka.address());
    let done = Scratch::new().run("kafka.sh", &[("KAFKA_HOME", &home), ("KAFKA", &address)]);
    assert_all_there(&done);
    let left: Vec<String> = kafka.topics().into_iter().filter(|name| name.contains("example")).collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn who_lacks_something_reads_where_to_get_it() {
    let scratch = Scratch::new();
    let without_nats = scratch.run("jetstream.sh", &[("NATS_SERVER", "/nowhere")]);
    assert_refused(
        &without_nats,
        &["no nats-server", "github.com/nats-io/nats-server/releases", "NATS=HOST:PORT"],
    );
    let without_kafka = scratch.run("kafka.sh", &[("KAFKA_HOME", "/nowhere")]);
    assert_refused(&without_kafka, &["KAFKA_HOME=/nowhere"]);
    let without_s3 = scratch.run("s3.sh", &[("VERSITYGW", "/nowhere")]);
    assert_refused(&without_s3, &["no versitygw", "github.com/versity/versitygw/releases", "VERSITYGW=PATH"]);
    let without_bbq = scratch.run("jetstream.sh", &[("NATS", "127.0.0.1:1"), ("BBQ", "/nowhere")]);
    assert_refused(&without_bbq, &["no bbq", "cargo build --release --features full"]);
    let without_broker = scratch.run("jetstream.sh", &[("NATS", "127.0.0.1:1")]);
    assert_refused(&without_broker, &["nobody listens at NATS=127.0.0.1:1"]);
}
