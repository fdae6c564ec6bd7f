//! If this fails, a panel of the dashboard for Grafana stays empty, or shows nothing where there is something.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeSet;
use std::fs;
use std::net::{TcpStream, UdpSocket};
use std::sync::mpsc::Receiver;
use std::time::Instant;

use serde_json::Value;

use super::http_server;
use super::prometheus::{ALERTS, Prometheus, RATE_INTERVAL, assert_known, get, metrics_of};
use crate::support::session::{Session, batch, stream_id};
use crate::support::{PATIENCE, Server, Setup};

const DASHBOARD: &str = include_str!("../../../../docs/examples/grafana-dashboard.json");
/// Panels whose numbers are 0 while all is well. Each of the others has to show more.
const MAY_SHOW_NOTHING: [&str; 17] = [
    "Not ready",
    "Failed lanes",
    "Queued, by sink",
    "Lag, by sink",
    "Sinks with a problem",
    "Accept delay",
    "Refused, closed and slowed",
    "Cut, duplicate and skipped",
    "Lanes that do not write",
    "Quarantine",
    "Sessions of bbq clients",
    "Uneven listeners",
    "Heartbeat, by worker",
    "Waiting in the kernel",
    "Rescued and starved",
    "TLS handshakes",
    "Notices, warnings and refused changes",
];
/// Connections of each round of the load, so that a window has enough of them for its evenness.
const CONNECTIONS: usize = 40;

fn dashboard() -> Value {
    serde_json::from_str(DASHBOARD).expect("JSON")
}

fn panels(dashboard: &Value) -> Vec<&Value> {
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    panels.filter(|panel| panel["type"] != "row").collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value:#}"))
}

/// The expressions of a panel.
fn expressions(panel: &Value) -> Vec<&str> {
    panel["targets"].as_array().expect("targets").iter().map(|target| text(target, "expr")).collect()
}

#[test]
fn every_panel_says_what_it_shows_and_has_a_place() {
    let dashboard = dashboard();
    assert!(dashboard["schemaVersion"].as_u64() >= Some(39) && dashboard["id"].is_null());
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{panel:#}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().expect("a place"));
        assert!(x + w <= 24 && h > 0, "{panel:#}");
        for cell in (x..x + w).flat_map(|column| (y..y + h).map(move |line| (column, line))) {
            assert!(taken.insert(cell), "another panel is at the place of {}", text(panel, "title"));
        }
    }
    for panel in panels(&dashboard) {
        assert!(text(panel, "title").len() > 3 && text(panel, "description").ends_with('.'), "{panel:#}");
        assert!(!text(&panel["fieldConfig"]["defaults"], "unit").is_empty());
        let targets = panel["targets"].as_array().unwrap().iter();
        for source in targets.map(|target| &target["datasource"]).chain([&panel["datasource"]]) {
            assert_eq!(text(source, "uid"), "${datasource}");
        }
        for expression in expressions(panel) {
            assert!(!metrics_of(expression).is_empty() || expression.contains("up{"), "{expression}");
            assert_eq!(
                expression.matches('{').count(),
                expression.matches(r#"{job=~"$job", instance=~"$instance""#).count(),
                "every series is one of the chosen servers: {expression}"
            );
        }
    }
}

/// Messages of every kind, and losses of some.
fn load(server: &Server<'_>, session: &mut Session, sequence: &mut u64) {
    let setup = server.setup;
    server.send(1, &[b"good\nbad\n", &[b'x'; 200][..], b"\n"].concat());
    for _ in 0..CONNECTIONS {
        drop(TcpStream::connect(setup.address(1)).expect("it listens"));
    }
    *sequence += 1;
    session.write(&batch(stream_id(1), *sequence, &["of a client"]));
    session.acknowledged(*sequence);
    // More than the socket's buffer can hold.
    server.freeze();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for _ in 0..100 {
        socket.send_to(&[b'x'; 500], setup.address(2)).expect("it listens");
    }
    server.signal(libc::SIGCONT);
}

/// A query as Grafana sends it when one server is chosen, and all jobs.
fn substituted(expression: &str, admin: &str) -> String {
    let escaped = admin.replace('.', r"\\.");
    let query = expression.replace("$__rate_interval", RATE_INTERVAL).replace("$job", ".*");
    let query = query.replace("$instance", &escaped);
    assert!(!query.contains('$'), "{query}");
    query
}

/// A server for a sink `http:` that refuses some messages for good; and what is posted to it.
pub(super) fn choosy_receiver() -> (String, Receiver<String>) {
    http_server::serve(|body| {
        let is_bad = body.contains("bad");
        Some(http_server::response(if is_bad { "400 Bad Request" } else { "204 No Content" }))
    })
}

#[test]
fn every_query_finds_what_a_server_under_load_does() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let mut setup = Setup::new(&[
        "bbq+tcp://127.0.0.1:{0}",
        "lines+tcp://127.0.0.1:{1}?message_bytes_max=100",
        "lines+udp://127.0.0.1:{2}?receive_buffer_bytes=4096",
        "lines+tcp://127.0.0.1:{3}?tls_cert={dir}/cert.pem&tls_key={dir}/key.pem",
    ])
    .with(&["--workers", "2"]);
    fs::write(setup.path().join("cert.pem"), certified.cert.pem()).expect("a file");
    fs::write(setup.path().join("key.pem"), certified.signing_key.serialize_pem()).expect("a file");
    let (receiver, _bodies) = choosy_receiver();
    setup.set_sinks(&["file:{dir}/out.log?name=file", &format!("http://{receiver}/?name=choosy")]);
    let server = setup.start();
    let prometheus = Prometheus::start(&[setup.admin()], ALERTS);
    let (mut session, mut sequence) = Session::open(setup.address(0), stream_id(1));

    let dashboard = dashboard();
    let mut empty: Vec<(&str, &str)> = panels(&dashboard)
        .into_iter()
        .flat_map(|panel| expressions(panel).into_iter().map(|expression| (text(panel, "title"), expression)))
        .collect();
    let titles: BTreeSet<&str> = empty.iter().map(|(title, _)| *title).collect();
    assert!(MAY_SHOW_NOTHING.iter().all(|title| titles.contains(title)), "{titles:?}");
    let is_shown = |(title, expression): &(&str, &str)| {
        let samples = prometheus.query(&substituted(expression, &setup.admin()));
        let values = samples.iter().map(|sample| sample["value"][1].as_str().expect("a value"));
        let mut values =
            values.map(|value| value.parse::<f64>().expect("a number")).filter(|value| value.is_finite());
        let may_be_zero = MAY_SHOW_NOTHING.contains(title);
        values.any(|value| may_be_zero || value > 0.0)
    };
    let began = Instant::now();
    while !empty.is_empty() {
        assert!(began.elapsed() < PATIENCE, "these show nothing: {empty:#?}\n{}", prometheus.log());
        load(&server, &mut session, &mut sequence);
        empty.retain(|query| !is_shown(query));
    }

    let (_, metrics) = get(&setup.admin(), "/metrics").expect("it answers");
    for panel in panels(&dashboard) {
        expressions(panel).into_iter().for_each(|expression| assert_known(expression, &metrics));
    }
    assert_variables(&dashboard, &prometheus, &setup.admin());
}

/// The variables offer the server and its job.
fn assert_variables(dashboard: &Value, prometheus: &Prometheus, admin: &str) {
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    for (name, value) in [("job", "bbq"), ("instance", admin)] {
        let variable = variables.iter().find(|variable| variable["name"] == name).expect("it is there");
        let query = text(&variable["query"], "query");
        let inside = query.strip_prefix("label_values(").and_then(|query| query.strip_suffix(')'));
        let (series, label) = inside.and_then(|inside| inside.rsplit_once(", ")).expect("two arguments");
        let values = prometheus.label_values(&series.replace("$job", ".*"), label);
        assert_eq!(values, [Value::from(value)], "{query}");
    }
    assert!(
        variables
            .iter()
            .any(|variable| variable["type"] == "datasource" && variable["query"] == "prometheus")
    );
}
