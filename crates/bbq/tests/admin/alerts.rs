//! If this fails, nobody is told of what docs/examples/prometheus-alerts.yml promises to tell.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::dashboard::choosy_receiver;
use super::prometheus::{ALERTS, Prometheus, assert_known, get};
use crate::support::client::{connect_from, source};
use crate::support::fault::Fault;
use crate::support::stranger::Stranger;
use crate::support::{PATIENCE, Setup, pause};

const LINES: &str = "lines+tcp://127.0.0.1:{0}";
/// Descriptors of the server that is crowded.
const DESCRIPTORS: &str = "--nofile=256:256";
const CLIENTS: u32 = 300;

/// The rules with times that are 120 times shorter: nobody waits for half an hour.
fn faster(rules: &str) -> String {
    let minutes = |text: &str| text.parse::<u64>().map(|minutes| format!("{}ms", minutes * 500));
    let line = |line: &str| {
        if let Some(time) = line.trim_start().strip_prefix("for: ").and_then(|time| time.strip_suffix('m')) {
            return format!("        for: {}\n", minutes(time).expect("minutes"));
        }
        let mut rest = line;
        let mut short = String::new();
        while let Some((before, behind)) = rest.split_once('[') {
            let (range, after) = behind.split_once("m]").expect("a range in minutes");
            short.push_str(&format!("{before}[{}]", minutes(range).expect("minutes")));
            rest = after;
        }
        short + rest + "\n"
    };
    let short: String = rules.lines().map(line).collect();
    for in_seconds in ["bbq_sink_lag_seconds > 60", ", 3600)"] {
        assert_eq!(short.matches(in_seconds).count(), 1, "{in_seconds}");
    }
    short.replace("bbq_sink_lag_seconds > 60", "bbq_sink_lag_seconds > 0.5").replace(", 3600)", ", 30)")
}

/// The alerts that fire, each with the instances that it names.
fn firing(prometheus: &Prometheus) -> BTreeMap<String, BTreeSet<String>> {
    let mut firing = BTreeMap::<String, BTreeSet<String>>::new();
    for alert in prometheus.get("/api/v1/alerts")["alerts"].as_array().expect("a list") {
        let label = |name: &str| alert["labels"][name].as_str().unwrap_or_default().to_owned();
        if alert["state"] == "firing" {
            firing.entry(label("alertname")).or_default().insert(label("instance"));
        }
    }
    firing
}

/// The rules that Prometheus has read: name and expression.
fn rules(prometheus: &Prometheus) -> Vec<(String, String)> {
    let groups = prometheus.get("/api/v1/rules");
    let groups = groups["groups"].as_array().expect("a list");
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().expect("a list"));
    let text = |rule: &Value, key: &str| rule[key].as_str().expect("a text").to_owned();
    rules.map(|rule| (text(rule, "name"), text(rule, "query"))).collect()
}

/// Waits until so many servers were seen ready.
fn wait_seen(prometheus: &Prometheus, servers: usize) {
    let began = Instant::now();
    while prometheus.query("bbq_ready == 1").len() < servers {
        assert!(began.elapsed() < PATIENCE, "{}", prometheus.log());
        pause();
    }
}

#[test]
fn every_alert_fires_for_the_server_that_it_is_about() {
    // A sink that nobody answers, and a spool that is full soon.
    let nowhere = crate::support::free_ports(1)[0];
    let mut full = Setup::new(&[&format!("{LINES}?on_full=drop-newest")])
        .config("[spool]\nsegment_bytes = \"1MiB\"\nbytes_max = \"32MiB\"\n")
        .with(&["--workers", "1"]);
    full.set_sinks(&[&format!("http://127.0.0.1:{nowhere}/?name=dead")]);
    // A file may not grow beyond 64 blocks, so no segment can be made.
    let limited = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let broken = Setup::new(&[LINES]).prefix(&["sh", "-c", limited]);
    let stuck = Setup::new(&[LINES]).with(&["--workers", "1"]);
    let shared = Setup::new(&[&format!("{LINES}?distribution=reuseport")]);
    let crowded = Setup::new(&[LINES]).prefix(&["prlimit", DESCRIPTORS]).with(&["--workers", "1"]);
    let mut choosy = Setup::new(&[LINES]);
    let (receiver, _bodies) = choosy_receiver();
    choosy.set_sinks(&[&format!("http://{receiver}/?name=choosy")]);
    let gone = Setup::new(&[LINES]);
    let setups = [&full, &broken, &stuck, &shared, &crowded, &choosy, &gone];
    let [_full, of_broken, of_stuck, _shared, _crowded, of_choosy, of_gone] = setups.map(Setup::start);
    let expected = BTreeMap::from([
        ("BbqDown", &gone),
        ("BbqHasProblem", &full),
        ("BbqLosesMessages", &full),
        ("BbqSinkBehind", &full),
        ("BbqSpoolFillsUp", &full),
        ("BbqMessagesRefused", &choosy),
        ("BbqLaneFailed", &broken),
        ("BbqWorkerStuck", &stuck),
        ("BbqUneven", &shared),
        ("BbqDescriptorsRunOut", &crowded),
    ]);

    let prometheus = Prometheus::start(&setups.map(Setup::admin), &faster(ALERTS));
    let rules = rules(&prometheus);
    let names: Vec<&str> = rules.iter().map(|(name, _)| name.as_str()).collect();
    assert!(
        names.iter().all(|name| expected.contains_key(name)) && names.len() == expected.len(),
        "{names:?}"
    );
    let (_, metrics) = get(&full.admin(), "/metrics").expect("it answers");
    rules.iter().for_each(|(_, expression)| assert_known(expression, &metrics));
    wait_seen(&prometheus, setups.len());
    assert_eq!(firing(&prometheus), BTreeMap::new());

    of_gone.kill();
    of_broken.send(0, b"no room\n");
    of_choosy.send(0, b"good\nbad\n");
    let calls = "accept4,read,recvfrom,recvmsg,recvmmsg:delay_enter=600000000";
    let stall = Fault::inject(of_stuck.pid(), "worker-0", calls);
    of_stuck.send(0, b"it is not read\n");
    let _stranger = Stranger::joins("tcp", shared.address(0));
    let _crowd: Vec<TcpStream> =
        (0..CLIENTS).map(|number| connect_from(source(number), crowded.address(0))).collect();
    let mut flood = TcpStream::connect(full.address(0)).expect("it listens");
    let lines = [&[b'x'; 999][..], b"\n"].concat().repeat(1000);
    let mut told = BTreeSet::new();
    let began = Instant::now();
    while told.len() < expected.len() {
        for (alert, instances) in firing(&prometheus) {
            let setup = expected.get(alert.as_str()).expect("a rule");
            let may_be_others = ["BbqHasProblem", "BbqLosesMessages"].contains(&alert.as_str());
            if instances.contains(&setup.admin()) {
                assert!(may_be_others || instances.len() == 1, "{alert}: {instances:?}");
                assert!(alert == "BbqMessagesRefused" || !instances.contains(&choosy.admin()), "{alert}");
                told.insert(alert);
            }
        }
        assert!(began.elapsed() < PATIENCE, "only {told:?}\n{}", prometheus.log());
        flood.write_all(&lines).expect("it reads");
    }
    drop(stall);
}

#[test]
fn promtool_has_nothing_to_say_of_the_metrics() {
    let setup = Setup::new(&[LINES]);
    let server = setup.start();
    let (code, metrics) = get(&setup.admin(), "/metrics").expect("it answers");
    assert_eq!(code, 200);
    let mut promtool = crate::support::unpacked::promtool();
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
    drop(server);
}

#[test]
fn the_rules_are_well_formed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("rules.yml");
    std::fs::write(&path, ALERTS).expect("a file");
    let mut promtool: Command = crate::support::unpacked::promtool();
    let output = promtool.args(["check", "rules", "--lint=all", "--lint-fatal"]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
