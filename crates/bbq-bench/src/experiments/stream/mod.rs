//! Messages as fast as they go: against their size, the number of connections, what an acknowledgement means, and beside
//! lines over plain TCP.

mod lines;
mod pipeline;
mod queues;

use bbq_wire::AckLevel;

use crate::metric::Metric;
use crate::plan::Plan;
use crate::section::{Drawing, Row, Section};
use crate::settings::Settings;
use pipeline::{BYTES, measure, section};

const MESSAGE_BYTES: [usize; 5] = [16, 100, 256, 1024, 4096];
const CONNECTIONS: [usize; 4] = [1, 4, 16, 64];

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let mut sections = vec![by_size(), by_connections(), by_level(), lines::section(settings, &mut left_out)];
    if settings.peers {
        sections.push(queues::section(settings, &mut left_out));
    }
    Ok(Plan { left_out, ..Plan::of(sections) })
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
