//! Messages as fast as they go: against their size, the number of connections, what an acknowledgement means, and beside
//! lines over plain TCP.

use bbq_wire::AckLevel;

use super::{STREAM_COLUMNS, stream_to_product};
use crate::directory;
use crate::load::session::Streams;
use crate::load::{lines, threads_beside};
use crate::meter::Meter;
use crate::metric::Metric;
use crate::peers::{self, Peer};
use crate::plan::{Drawing, Plan, Row, Section};
use crate::sample::Sample;
use crate::settings::Settings;
use crate::under_test::{Product, ProductOptions};

const MESSAGE_BYTES: [usize; 5] = [16, 100, 256, 1024, 4096];
const CONNECTIONS: [usize; 4] = [1, 4, 16, 64];
const LINE_BYTES: usize = 256;
const LINE_CONNECTIONS: usize = 4;
/// Bytes of messages in a batch, and bytes on their way at most: what bbq-client fills, and what covers a disk's latency.
const BATCH_BYTES: usize = 256 * 1024;
const WINDOW_BYTES: usize = 16 * 1024 * 1024;

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let sizes = MESSAGE_BYTES.map(|bytes| {
        Row::new(format!("bbq, {bytes} B"), move |settings| measure(settings, bytes, 1, AckLevel::Durable))
    });
    let connections = CONNECTIONS.map(|count| {
        Row::new(format!("bbq, {count} connections"), move |settings| {
            measure(settings, 100, count, AckLevel::Durable)
        })
    });
    let levels = [
        ("durable: on disk", AckLevel::Durable),
        ("received: in the server's memory", AckLevel::Received),
        ("none: nothing is said", AckLevel::None),
    ]
    .map(|(name, level)| Row::new(name, move |settings| measure(settings, 100, 1, level)));
    let section = |title: &str, about: &str, drawing, rows: Vec<Row>| Section {
        title: title.to_owned(),
        about: about.to_owned(),
        columns: STREAM_COLUMNS.to_vec(),
        baseline: None,
        drawing,
        rows,
    };
    let by_size = Section {
        baseline: None,
        ..section(
            "by size of the messages",
            "One bbq connection; acknowledged when on disk; the server also writes one file. Latency is a full pipeline's.",
            Drawing::Bars(Metric::Throughput),
            sizes.into(),
        )
    };
    let by_connections = section(
        "by connections, 100 B",
        "As above, the messages shared by the connections.",
        Drawing::Bars(Metric::Rate),
        connections.into(),
    );
    let by_level = Section {
        baseline: Some((0, Metric::ServerCpu)),
        ..section(
            "by what an acknowledgement means, 100 B, one connection",
            "The disk has the same work in all rows: the server syncs whether or not somebody waits.",
            Drawing::Bars(Metric::Rate),
            levels.into(),
        )
    };
    let lines = Section {
        baseline: Some((0, Metric::ServerCpu)),
        ..section(
            "lines of 256 B over 4 TCP connections, to a file",
            "Nothing is acknowledged; the rate is that of delivery. bbq spools and syncs every 10 ms; the others keep no \
             message over a crash. All slow the senders down rather than drop.",
            Drawing::Bars(Metric::ServerCpu),
            lines_rows(settings, &mut left_out),
        )
    };
    Ok(Plan { left_out, ..Plan::of(vec![by_size, by_connections, by_level, lines]) })
}

fn measure(
    settings: &Settings,
    message_bytes: usize,
    connections: usize,
    level: AckLevel,
) -> anyhow::Result<Sample> {
    let threads = threads_beside(settings.workers).min(connections);
    let window = (WINDOW_BYTES / BATCH_BYTES / connections).max(2);
    stream_to_product(settings, 1, "", &move |server| Streams {
        server,
        threads,
        connections,
        level,
        message_bytes,
        records: (BATCH_BYTES / (message_bytes + 2)) as u32, // at most BATCH_BYTES
        window,
    })
}

fn lines_rows(settings: &Settings, left_out: &mut Vec<String>) -> Vec<Row> {
    let mut rows = vec![Row::new("bbq lines+tcp", lines_to_product)];
    for (name, start) in peers::available(settings, &peers::LINE_SERVERS, left_out) {
        rows.push(Row::new(name, move |settings| lines_to_peer(settings, start)));
    }
    rows
}

fn lines_to_product(settings: &Settings) -> anyhow::Result<Sample> {
    let directory = directory::make(&settings.directory)?;
    let options = ProductOptions { listen: &["lines+tcp://127.0.0.1:0"], sinks: 1, configuration: "" };
    let mut product = Product::start(settings, directory.path(), &options)?;
    let meter = Meter::start(Some(product.pid()))?;
    let began = std::time::Instant::now();
    let mut load = lines::run(&load(settings, product.addresses()[0]))?;
    product.wait_delivered(load.operations, load.bytes)?;
    load.took = began.elapsed();
    let sample = meter.stop(&load)?;
    product.stop()?;
    Ok(sample)
}

fn lines_to_peer(settings: &Settings, start: peers::Start) -> anyhow::Result<Sample> {
    let directory = directory::make(&settings.directory)?;
    let mut peer: Peer = start(settings, directory.path())?;
    let meter = Meter::start(Some(peer.pid()))?;
    let began = std::time::Instant::now();
    let mut load = lines::run(&load(settings, peer.address()))?;
    peer.wait_written(load.bytes)?;
    load.took = began.elapsed();
    let sample = meter.stop(&load)?;
    peer.stop()?;
    Ok(sample)
}

fn load(settings: &Settings, server: std::net::SocketAddrV4) -> lines::Lines {
    lines::Lines {
        server,
        connections: LINE_CONNECTIONS,
        line_bytes: LINE_BYTES,
        duration: settings.duration,
    }
}
