//! What HTTP costs: OpenTelemetry's logs beside its Collector, and single messages beside nginx, which stores nothing.
//!
//! A sample of bbq counts only if its ledger has every message, and its file every byte.

use std::net::SocketAddrV4;

use crate::load::posts::Posts;
use crate::load::{Load, otlp, threads_beside};
use crate::meter::Meter;
use crate::metric::Metric;
use crate::peers::{self, Peer, collector, nginx};
use crate::plan::Plan;
use crate::product::{Product, Sinks, shares};
use crate::sample::Sample;
use crate::section::{Drawing, Mark, Row, Section};
use crate::settings::Settings;

const RECORDS: u64 = 1000;
const TEXT_BYTES: u64 = 100;
const LOG_CONNECTIONS: usize = 8;
const MESSAGE_BYTES: u64 = 1024;
const MESSAGE_CONNECTIONS: usize = 64;
/// In microseconds.
const RECORD_MARK: f64 = 1.0;
const COLLECTOR_MARK: f64 = 0.2;
const NGINX_MARK: f64 = 1.5;
const COLUMNS: [Metric; 8] = [
    Metric::ServerCpu,
    Metric::ServerSystemCpu,
    Metric::Rate,
    Metric::Throughput,
    Metric::LatencyP50,
    Metric::LatencyP99,
    Metric::ClientCpu,
    Metric::OthersBusy,
];
const COLLECTOR: &str = "OpenTelemetry Collector, queue in files";

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let sections = vec![logs(settings, &mut left_out), messages(settings, &mut left_out)];
    Ok(Plan { left_out, ..Plan::of(sections) })
}

fn logs(settings: &Settings, left_out: &mut Vec<String>) -> Section {
    let posts = Posts::new(
        ("/v1/logs", "application/x-protobuf"),
        &otlp::request(RECORDS, TEXT_BYTES as usize),
        (RECORDS, TEXT_BYTES),
        LOG_CONNECTIONS,
    );
    let (mut rows, ours) = of_bbq("otlp+tcp", &posts);
    if settings.peers && peers::installed(collector::PROGRAM, left_out) {
        rows.push(Row::other(COLLECTOR, move |settings| to_collector(settings, &posts)));
    }
    let title =
        format!("otlp: requests of {RECORDS} log records of {TEXT_BYTES} B, {LOG_CONNECTIONS} connections");
    let about = "OTLP by HTTP in Protocol Buffers; connections stay open, and each waits for its answer, which comes when the log records are \
                 synced (fdatasync). CPU and rates are of a log record, latency is of a request. bbq spools them, and writes the texts to a file, \
                 which it syncs, or to the sink null:. The Collector has a persistent sending_queue (file_storage, fsync: true), and behind it \
                 an exporter that writes the texts to a file, unsynced, and does nothing else.";
    section(settings, title, about, rows, (&ours, Some(RECORD_MARK)), (COLLECTOR, COLLECTOR_MARK))
        .of("log record")
}

fn messages(settings: &Settings, left_out: &mut Vec<String>) -> Section {
    let body: Vec<u8> = (b'a'..=b'z').cycle().take(MESSAGE_BYTES as usize).collect();
    let posts = Posts::new(("/", "text/plain"), &body, (1, MESSAGE_BYTES), MESSAGE_CONNECTIONS);
    let (mut rows, ours) = of_bbq("http+tcp", &posts);
    let (name, mode) = nginx::MODES[0];
    if settings.peers && peers::installed("nginx", left_out) {
        rows.push(Row::other(name, move |settings| {
            nginx::start(settings, mode, None)?.measure(|server| run(settings, &posts, server))
        }));
    }
    let title =
        format!("post: a message of {MESSAGE_BYTES} B in each request, {MESSAGE_CONNECTIONS} connections");
    let about = "POST by HTTP/1.1; connections stay open, and each waits for its answer. bbq answers when the message is synced (fdatasync), and \
                 writes it to a file, or to the sink null:. nginx reads the body and answers `return 200 \"OK\"`; it stores nothing.";
    section(settings, title, about, rows, (&ours, None), (name, NGINX_MARK))
}

/// Rows of bbq with a file and with nothing behind its spool; the name of the first.
fn of_bbq(protocol: &'static str, posts: &Posts) -> (Vec<Row>, String) {
    let sinks = [("file", Sinks::Files(1)), ("null", Sinks::Null)];
    let rows: Vec<Row> = sinks
        .map(|(sink, sinks)| {
            let posts = posts.clone();
            Row::new(format!("bbq {protocol}, {sink}"), move |settings| {
                to_bbq(settings, protocol, sinks, &posts)
            })
        })
        .into();
    let first = rows[0].name.clone();
    (rows, first)
}

/// A row has a mark in microseconds, and one beside a peer if peers are asked for.
fn section(
    settings: &Settings,
    title: String,
    about: &str,
    rows: Vec<Row>,
    (row, micros): (&str, Option<f64>),
    (peer, times): (&str, f64),
) -> Section {
    let mark = |limit, floor| Mark { row: row.to_owned(), limit, floor, beside: Vec::new() };
    let beside = settings.peers.then(|| mark(times, Some(peer.to_owned())));
    let marks = micros.map(|limit| mark(limit, None)).into_iter().chain(beside).collect();
    let section = Section::new(title, about, &COLUMNS, Drawing::Bars(Metric::ServerCpu), rows);
    Section { marks, ..section }.beside(peer, Metric::ServerCpu)
}

/// In a file, each message has a line feed behind it.
fn file_bytes(posts: &Posts, load: &Load) -> u64 {
    load.operations * (posts.message_bytes + 1)
}

fn to_bbq(settings: &Settings, protocol: &str, sinks: Sinks, posts: &Posts) -> anyhow::Result<Sample> {
    let mut product = Product::start(settings, protocol, sinks, "")?;
    let meter = Meter::start(Some(product.pid()))?;
    let load = run(settings, posts, product.address())?;
    let written = if sinks == Sinks::Null { 0 } else { file_bytes(posts, &load) };
    let status = product.wait_delivered(load.operations, written)?;
    let mut sample = meter.stop(&load)?;
    sample.set_shares(shares(&status, settings.workers));
    product.stop()?;
    Ok(sample)
}

fn to_collector(settings: &Settings, posts: &Posts) -> anyhow::Result<Sample> {
    let mut peer: Peer = collector::start(settings)?;
    let meter = Meter::start(Some(peer.pid()))?;
    let load = run(settings, posts, peer.address())?;
    peer.wait_written(file_bytes(posts, &load))?;
    let sample = meter.stop(&load)?;
    peer.stop()?;
    Ok(sample)
}

fn run(settings: &Settings, posts: &Posts, server: SocketAddrV4) -> anyhow::Result<Load> {
    posts.connect(server, threads_beside(settings.workers))?.run(settings.duration)
}
