//! If this fails, /metrics shows another number than `bbq status`, or one that the status does not have.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Instant;

use serde_json::{Value, json};

use super::faulty;
use super::prometheus::get;
use crate::support::PATIENCE;

/// Values by name and labels, as a line of the text has them.
type Samples = BTreeMap<String, f64>;

/// The metrics of bbq; those of the process are the system's.
fn shown(admin: &str) -> Samples {
    let (code, text) = get(admin, "/metrics").expect("it listens");
    assert_eq!(code, 200, "{text}");
    let samples = text.lines().filter(|line| line.starts_with("bbq_"));
    let sample = |line: &str| {
        let (key, value) = line.rsplit_once(' ').expect("a value");
        (key.to_owned(), value.parse().expect("a number"))
    };
    samples.map(sample).collect()
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Bool(flag) => f64::from(u8::from(*flag)),
        Value::Array(list) => list.len() as f64,
        Value::Object(counts) => counts.values().map(number).sum(),
        value => value.as_f64().unwrap_or_else(|| panic!("no number: {value}")),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn name(of: &Value) -> &str {
    of["name"].as_str().expect("a name")
}

/// What the status says, by the names of the metrics.
#[derive(Default)]
struct Told(Samples);

impl Told {
    fn of(status: &Value) -> Samples {
        let mut told = Told::default();
        told.server(status);
        list(&status["workers"]).iter().for_each(|worker| told.worker(worker));
        list(&status["listeners"]).iter().for_each(|listener| told.listener(listener));
        list(&status["sinks"]).iter().for_each(|sink| told.sink(sink));
        told.spool(&status["spool"]);
        told.0
    }

    fn add(&mut self, metric: &str, labels: &str, value: f64) {
        let key =
            if labels.is_empty() { format!("bbq_{metric}") } else { format!("bbq_{metric}{{{labels}}}") };
        assert!(self.0.insert(key, value).is_none(), "{metric}");
    }

    /// Metrics that have the fields' numbers.
    fn fields(&mut self, metrics: &[(&str, &str)], labels: &str, of: &Value) {
        for (metric, field) in metrics {
            self.add(metric, labels, number(&of[field]));
        }
    }

    fn dropped(&mut self, metric: &str, labels: &str, dropped: &Value) {
        let comma = if labels.is_empty() { "" } else { "," };
        for (reason, count) in dropped.as_object().expect("reasons") {
            self.add(metric, &format!("{labels}{comma}reason=\"{reason}\""), number(count));
        }
    }

    fn server(&mut self, status: &Value) {
        self.add("build", &format!("version={}", status["version"]), 1.0);
        let same = ["ready", "problems", "notices", "warnings", "uptime_seconds", "connections_max"];
        self.fields(&same.map(|name| (name, name)), "", status);
        self.add("change_refused", "", f64::from(u8::from(!status["refused_change"].is_null())));
        let ledger = &status["ledger"];
        let fields = [
            ("received_messages_total", "received"),
            ("delivered_messages_total", "delivered"),
            ("delivered_by_any_messages_total", "delivered_by_any"),
            ("queued_messages", "queued"),
            ("filtered_messages_total", "filtered"),
        ];
        self.fields(&fields, "", ledger);
        self.dropped("dropped_messages_total", "", &ledger["dropped"]);
    }

    fn worker(&mut self, worker: &Value) {
        let labels = format!("worker=\"{}\"", worker["index"]);
        let fields = [
            ("worker_connections", "connections"),
            ("worker_sessions", "sessions"),
            ("worker_sessions_active", "sessions_active"),
        ];
        self.fields(&fields, &labels, worker);
        self.add("worker_heartbeat_seconds", &labels, number(&worker["heartbeat_ms"]) / 1000.0);
    }

    fn listener(&mut self, listener: &Value) {
        let labels = format!("listener=\"{}\"", name(listener));
        let fields = [
            ("listener_received_messages_total", "received"),
            ("listener_filtered_messages_total", "filtered"),
            ("listener_cut_messages_total", "cut"),
            ("listener_duplicate_messages_total", "duplicates"),
            ("listener_skipped_messages_total", "skipped"),
            ("listener_refused_total", "refused"),
            ("listener_evicted_connections_total", "evicted"),
            ("listener_over_limit_connections_total", "over_limit"),
            ("listener_slowed_total", "slowed"),
        ];
        self.fields(&fields, &labels, &listener["ledger"]);
        self.dropped("listener_dropped_messages_total", &labels, &listener["ledger"]["dropped"]);
        self.fields(&[("listener_filter_failed_messages_total", "filter_failed")], &labels, listener);
        self.add("listener_foreign_sockets", &labels, number(&listener["foreign"]));
        if !listener["evenness"].is_null() {
            self.add("listener_uneven", &labels, number(&listener["evenness"]["uneven"]));
        }
        list(&listener["sockets"]).iter().for_each(|socket| self.socket(&labels, socket));
    }

    fn socket(&mut self, labels: &str, socket: &Value) {
        let worker = socket["worker"].as_u64().map_or_else(|| "all".to_owned(), |worker| worker.to_string());
        let labels = format!("{labels},socket=\"{}\",worker=\"{worker}\"", socket["index"]);
        let fields = [
            ("socket_accepted_total", "accepted"),
            ("socket_queue", "queue"),
            ("socket_backlog", "backlog"),
            ("socket_kernel_drops_total", "drops"),
            ("socket_starved_total", "starved"),
            ("socket_rescued_total", "rescued"),
        ];
        // The kernel does not tell everything of every socket.
        let known: Vec<(&str, &str)> =
            fields.into_iter().filter(|(_, field)| !socket[field].is_null()).collect();
        self.fields(&known, &labels, socket);
        for (quantile, field) in [("0.5", "p50"), ("0.99", "p99"), ("1", "max")] {
            let delay = &socket["accept_delay_ms"][field];
            if !delay.is_null() {
                let labels = format!("{labels},quantile=\"{quantile}\"");
                self.add("socket_accept_delay_seconds", &labels, number(delay) / 1000.0);
            }
        }
    }

    fn sink(&mut self, sink: &Value) {
        let labels = format!("sink=\"{}\"", name(sink));
        let fields = [
            ("sink_delivered_messages_total", "delivered"),
            ("sink_filtered_messages_total", "filtered"),
            ("sink_filter_failed_messages_total", "filter_failed"),
            ("sink_queued_messages", "queued"),
            ("sink_lag_seconds", "lag_seconds"),
            ("sink_dead_letters_deleted_messages_total", "letters_deleted"),
            ("sink_truncated_total", "truncations"),
        ];
        self.fields(&fields, &labels, sink);
        self.add("sink_paused", &labels, f64::from(u8::from(sink["paused"] == true)));
        self.add(
            "sink_has_problem",
            &labels,
            f64::from(u8::from(!sink["problem"].is_null() && sink["paused"] == false)),
        );
        self.dropped("sink_dropped_messages_total", &labels, &sink["dropped"]);
    }

    fn spool(&mut self, spool: &Value) {
        let fields = [
            ("spool_bytes", "bytes"),
            ("spool_max_bytes", "bytes_max"),
            ("spool_segments", "segments"),
            ("spool_quarantined_total", "quarantined"),
            ("streams_forgotten_total", "streams_forgotten"),
        ];
        self.fields(&fields, "", spool);
        for lane in list(&spool["lanes"]) {
            let labels = format!("lane=\"{}\"", lane["index"]);
            self.add("lane_messages_total", &labels, number(&lane["records"]));
            self.add("lane_written_bytes_total", &labels, number(&lane["written_bytes"]));
            for condition in ["writing", "waiting-for-space", "failed"] {
                let is_it = f64::from(u8::from(lane["condition"] == condition));
                self.add("lane_condition", &format!("{labels},condition=\"{condition}\""), is_it);
            }
            for histogram in ["durable_seconds", "sync_seconds"] {
                self.histogram(histogram, &labels, &lane[histogram]);
            }
        }
    }

    fn histogram(&mut self, name: &str, labels: &str, of: &Value) {
        for bucket in list(&of["buckets"]) {
            let end = &bucket["le"];
            let end = if end.is_null() { "+Inf".to_owned() } else { number(end).to_string() };
            self.add(
                &format!("lane_{name}_bucket"),
                &format!("{labels},le=\"{end}\""),
                number(&bucket["count"]),
            );
        }
        self.add(&format!("lane_{name}_count"), labels, number(&of["count"]));
        self.add(&format!("lane_{name}_sum"), labels, number(&of["sum"]));
    }
}

/// Time goes on between two questions.
fn without_clocks(mut status: Value) -> Value {
    status["uptime_seconds"] = json!(0);
    status["spool"]["full_in_seconds"] = json!(null);
    for sink in status["sinks"].as_array_mut().expect("sinks") {
        sink["lag_seconds"] = json!(0);
    }
    for worker in status["workers"].as_array_mut().expect("workers") {
        worker["heartbeat_ms"] = json!(0);
    }
    // Text of problems says for how long.
    for list in ["problems", "troubles", "findings"] {
        status[list] = json!(status[list].as_array().expect("a list").len());
    }
    status
}

fn is_clock(key: &str) -> bool {
    ["uptime", "sink_lag", "worker_heartbeat"]
        .iter()
        .any(|clock| key.starts_with(&format!("bbq_{clock}_seconds")))
}

#[test]
fn every_metric_is_a_number_of_the_status() {
    let setup = faulty::setup();
    let server = setup.start();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    server.send(0, "one\ntwo\n".repeat(1000).as_bytes());
    socket.send_to(b"<34>a datagram", setup.address(1)).expect("it is sent");
    // The second sink writes a file; the first one is dead, and keeps everything queued.
    server.wait_status("everything", |status| {
        status["sinks"][1]["delivered"] == 2001 && !status["sinks"][0]["problem"].is_null()
    });
    // Again when something has changed in between: a bucket, the text of a problem.
    let begun = Instant::now();
    let (before, shown) = loop {
        assert!(begun.elapsed() < PATIENCE, "the status changes all the time");
        let before = server.status();
        let shown = shown(&setup.admin());
        if without_clocks(before.clone()) == without_clocks(server.status()) {
            break (before, shown);
        }
    };
    let told = Told::of(&before);
    for (key, value) in &told {
        let metric = shown.get(key).unwrap_or_else(|| panic!("{key} is not in /metrics: {shown:#?}"));
        assert!(value == metric || is_clock(key), "{key}: {metric} in /metrics, {value} in the status");
    }
    for (key, value) in shown.iter().filter(|(key, _)| !told.contains_key(*key)) {
        // All reasons are there from the start.
        assert!(
            key.contains("dropped_messages_total{") && *value == 0.0,
            "{key}: {value} is not in the status"
        );
    }
    assert!(told.len() > 100 && told["bbq_received_messages_total"] == 2001.0, "{told:#?}");
    assert!(told["bbq_problems"] == 1.0 && told["bbq_queued_messages"] == 2001.0, "{told:#?}");
}
