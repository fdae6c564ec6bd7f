//! A real Prometheus with the configuration that docs/examples has, which looks more often.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::program::Program;
use crate::support::{PATIENCE, free_ports, pause, unpacked};

const CONFIGURATION: &str = include_str!("../../../../docs/examples/prometheus.yml");
/// The rules as users get them.
pub(super) const ALERTS: &str = include_str!("../../../../docs/examples/prometheus-alerts.yml");
/// How often it scrapes.
const SCRAPED_EVERY: &str = "500ms";
/// Four scrapes, which Grafana takes when little time is shown.
pub(super) const RATE_INTERVAL: &str = "2s";

pub(super) struct Prometheus {
    address: String,
    directory: TempDir,
    _program: Program,
}

impl Prometheus {
    /// Scrapes these servers, by the addresses of their admins. It is ready when this returns.
    pub(super) fn start(admins: &[String], rules: &str) -> Prometheus {
        let directory = tempfile::tempdir().expect("a directory");
        let quoted: Vec<String> = admins.iter().map(|admin| format!("{admin:?}")).collect();
        let default = r#"["127.0.0.1:7790"]"#;
        assert!(CONFIGURATION.contains(default), "the configuration has another form");
        let of_servers = CONFIGURATION.replace(default, &format!("[{}]", quoted.join(", ")));
        let often =
            format!("global: {{scrape_interval: {SCRAPED_EVERY}, evaluation_interval: {SCRAPED_EVERY}}}\n");
        let path = |name: &str| directory.path().join(name);
        fs::write(path("prometheus.yml"), often + &of_servers).expect("a file");
        fs::write(path("prometheus-alerts.yml"), rules).expect("a file");
        check(unpacked::promtool().args(["check", "config"]).arg(path("prometheus.yml")));
        let address = format!("127.0.0.1:{}", free_ports(1)[0]);
        let log = fs::File::create(path("log")).expect("a file");
        let mut command = unpacked::prometheus();
        command
            .arg(format!("--config.file={}", path("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", path("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let prometheus = Prometheus { address, _program: Program::start(&mut command), directory };
        let began = Instant::now();
        while prometheus.request("/-/ready").is_none_or(|(code, _)| code != 200) {
            assert!(began.elapsed() < PATIENCE, "it is not ready\n{}", prometheus.log());
            pause();
        }
        prometheus
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// The samples that a query finds now.
    pub(super) fn query(&self, query: &str) -> Vec<Value> {
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("query", query).finish();
        self.get(&format!("/api/v1/query?{query}"))["result"].as_array().expect("a list").clone()
    }

    /// The values of a label of the series of a metric.
    pub(super) fn label_values(&self, metric: &str, label: &str) -> Vec<Value> {
        let series = form_urlencoded::Serializer::new(String::new()).append_pair("match[]", metric).finish();
        self.get(&format!("/api/v1/label/{label}/values?{series}")).as_array().expect("a list").clone()
    }

    /// The data of an answer of its API.
    pub(super) fn get(&self, path: &str) -> Value {
        let (code, body) = self.request(path).expect("it answers");
        assert_eq!(code, 200, "{path}: {body}");
        serde_json::from_str::<Value>(&body).expect("JSON")["data"].take()
    }

    /// Code and body; nothing while it does not listen.
    fn request(&self, path: &str) -> Option<(u16, String)> {
        get(&self.address, path)
    }
}

/// Code and body of a path at an address; nothing if nobody listens there.
pub(super) fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    // In this version of HTTP a response ends with its connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// The metrics that an expression names.
pub(super) fn metrics_of(expression: &str) -> Vec<&str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("bbq_") || word.starts_with("process_")).collect()
}

/// Checks that each metric of an expression is in /metrics: has samples, or is a gauge that may have none yet.
pub(super) fn assert_known(expression: &str, metrics: &str) {
    let is_there = |name: &str| {
        let after = |line: &str| line.strip_prefix(name).and_then(|rest| rest.chars().next());
        let gauge = format!("# TYPE {name} gauge");
        metrics.lines().any(|line| line == gauge || matches!(after(line), Some('{' | ' ')))
    };
    for name in metrics_of(expression) {
        assert!(is_there(name), "{name} of {expression} is not in /metrics\n{metrics}");
    }
}

fn check(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
