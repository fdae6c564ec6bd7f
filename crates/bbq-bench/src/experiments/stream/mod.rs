//! Messages as fast as they go: against their size, the number of connections, what an acknowledgement means, and beside
//! lines over plain TCP.

mod lines;
mod queues;

use bbq_wire::AckLevel;

use super::streaming::{STREAM_COLUMNS, stream_to_product};
use crate::load::session::{Flow, Streams};
use crate::load::threads_beside;
use crate::metric::Metric;
use crate::plan::{Drawing, Plan, Row, Section};
use crate::sample::Sample;
use crate::settings::Settings;

const MESSAGE_BYTES: [usize; 5] = [16, 100, 256, 1024, 4096];
const CONNECTIONS: [usize; 4] = [1, 4, 16, 64];
/// Of the other sections.
const BYTES: usize = 100;
/// Bytes of messages in a batch, and bytes on their way at most: what bbq-client fills, and what covers a disk's latency.
const BATCH_BYTES: usize = 256 * 1024;
const WINDOW_BYTES: usize = 16 * 1024 * 1024;

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let mut sections = vec![by_size(), by_connections(), by_level(), lines::section(settings, &mut left_out)];
    if settings.peers {
        sections.push(queues::section(settings, &mut left_out));
    }
    Ok(Plan { left_out, ..Plan::of(sections) })
}

/// Without a baseline.
fn section(title: &str, about: &str, drawing: Drawing, rows: Vec<Row>) -> Section {
    Section {
        title: title.to_owned(),
        about: about.to_owned(),
        columns: STREAM_COLUMNS.to_vec(),
        baseline: None,
        drawing,
        rows,
    }
}

fn by_size() -> Section {
    let row = |bytes| {
        Row::new(format!("bbq, {bytes} B"), move |settings| measure(settings, bytes, 1, AckLevel::Durable))
    };
    section(
        "by size of the messages",
        "One bbq connection; acknowledged when on disk; the server also writes one file. Latency is a full pipeline's.",
        Drawing::Bars(Metric::Throughput),
        MESSAGE_BYTES.map(row).into(),
    )
}

fn by_connections() -> Section {
    let row = |count| {
        Row::new(format!("bbq, {count} connections"), move |settings| {
            measure(settings, BYTES, count, AckLevel::Durable)
        })
    };
    section(
        "by connections, 100 B",
        "As above, the messages shared by the connections.",
        Drawing::Bars(Metric::Rate),
        CONNECTIONS.map(row).into(),
    )
}

fn by_level() -> Section {
    let row = |(name, level)| Row::new(name, move |settings| measure(settings, BYTES, 1, level));
    let levels = [
        ("durable: on disk", AckLevel::Durable),
        ("received: in the server's memory", AckLevel::Received),
        ("none: nothing is said", AckLevel::None),
    ];
    let section = section(
        "by what an acknowledgement means, 100 B, one connection",
        "The disk has the same work in all rows: the server syncs whether or not somebody waits.",
        Drawing::Bars(Metric::Rate),
        levels.map(row).into(),
    );
    Section { baseline: Some((0, Metric::ServerCpu)), ..section }
}

fn measure(
    settings: &Settings,
    message_bytes: usize,
    connections: usize,
    level: AckLevel,
) -> anyhow::Result<Sample> {
    let threads = threads_beside(settings.workers).min(connections);
    let window = (WINDOW_BYTES / BATCH_BYTES / connections).max(2);
    stream_to_product(settings, 1, settings.duration, &move |server| Streams {
        server,
        threads,
        connections,
        level,
        message_bytes,
        records: (BATCH_BYTES / (message_bytes + 2)) as u32, // at most BATCH_BYTES
        flow: Flow::Window(window),
    })
}
