//! What a message costs as there is more of everything: connections, sinks, and what is in the spool already.

mod messages;
mod spool;

use std::time::Duration;

use bbq_wire::AckLevel;

use super::streaming::stream_to_product;
use crate::load::session::{Flow, Streams};
use crate::load::threads_beside;
use crate::metric::Metric;
use crate::plan::Plan;
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::settings::Settings;
use messages::{MESSAGE_BYTES, RECORDS, WINDOW};

const CONNECTIONS: [usize; 4] = [10, 100, 1_000, 10_000];
const SINKS: [usize; 4] = [1, 2, 4, 8];
/// Messages a second where the rate is fixed: a fraction of what one core takes.
const PER_SECOND: u32 = 100_000;
/// The same by sinks: 8 of them and the spool give a disk 180 MB a second, which most take.
const PER_SECOND_SINKS: u32 = 200_000;
/// Times as long as at full speed: the time that the last acknowledgement takes is then a small part.
const FIXED_RATE_LASTS: u32 = 3;
/// Connections where nothing is said of them.
const SOME: usize = 100;
const DESCRIPTORS_ELSE: u64 = 200;

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let limit = bbq_listen::raise_descriptor_limit().soft;
    let mut left_out = Vec::new();
    let short = settings.duration < Duration::from_secs(1);
    let (fit, others): (Vec<usize>, Vec<usize>) = CONNECTIONS
        .iter()
        .partition(|count| **count as u64 + DESCRIPTORS_ELSE <= limit && (!short || **count <= 1_000));
    if !others.is_empty() {
        left_out.push(format!(
            "{others:?} connections: the limit of descriptors is {limit}, and a --duration under 1 s is too short for many"
        ));
    }
    let name = |count: usize, what: &str| format!("bbq, {count} {what}");
    let full = |connections, sinks| move |settings: &Settings| full_speed(settings, connections, sinks);
    let fixed = |name, per_second: u32, connections, sinks| {
        Row::new(name, move |settings| fixed_rate(settings, per_second, connections, sinks))
            .asking(per_second.into(), Metric::OfferedRate)
    };
    let connections = fit.iter().map(|count| Row::new(name(*count, "connections"), full(*count, 1)));
    let connections_paced = fit.iter().map(|count| fixed(name(*count, "connections"), PER_SECOND, *count, 1));
    let sinks = SINKS.map(|sinks| Row::new(name(sinks, "sinks"), full(SOME, sinks)));
    let sinks_paced = SINKS.map(|sinks| fixed(name(sinks, "sinks"), PER_SECOND_SINKS, SOME, sinks));
    let sections = vec![
        section(
            "connections",
            "100 B messages in batches of 100, each connection a stream, 1,000 batches on their way or one for each connection; \
             acknowledged when on disk, and written to a file. Server CPU until everything is in the file: sinks behind is how \
             long that took behind the last acknowledgement."
                .to_owned(),
            connections.collect(),
        ),
        section(
            "connections, at a fixed rate",
            format!(
                "The same, {} k messages a second of all connections together, each in its turn. A sample lasts {FIXED_RATE_LASTS} \
                 times as long as the others, and until all have had a turn. Latency is from when a batch was due.",
                PER_SECOND / 1_000
            ),
            connections_paced.collect(),
        ),
        section(
            "sinks",
            format!("As the first, with {SOME} connections, written to so many files."),
            sinks.into(),
        ),
        section(
            "sinks, at a fixed rate",
            format!("The same, {} k messages a second, as above.", PER_SECOND_SINKS / 1_000),
            sinks_paced.into(),
        ),
        section(
            "what is in the spool already",
            format!(
                "As the first, with {SOME} connections and a sink that takes nothing, so that all stays in the spool. start: what \
                 the server takes to be ready again after a kill, with all of that and what the sample has added."
            ),
            spool::rows(settings, short, &mut left_out)?,
        ),
    ];
    Ok(Plan { left_out, ..Plan::of(sections) })
}

fn section(title: &str, about: String, rows: Vec<Row>) -> Section {
    let section = Section::new(
        title,
        about,
        &[
            Metric::OfferedRate,
            Metric::Rate,
            Metric::ServerCpu,
            Metric::ServerSystemCpu,
            Metric::ClientCpu,
            Metric::LatencyP99,
            Metric::SinksBehind,
            Metric::Start,
            Metric::OthersBusy,
        ],
        Drawing::Bars(Metric::ServerCpu),
        rows,
    );
    Section { baseline: Some((0, Metric::ServerCpu)), ..section }
}

fn full_speed(settings: &Settings, connections: usize, sinks: usize) -> anyhow::Result<Sample> {
    let flow = Flow::Window((WINDOW / connections).max(1));
    measure(settings, settings.duration, connections, sinks, flow)
}

fn fixed_rate(
    settings: &Settings,
    per_second: u32,
    connections: usize,
    sinks: usize,
) -> anyhow::Result<Sample> {
    // One batch of each, at least.
    let turn = Duration::from_secs_f64(connections as f64 * f64::from(RECORDS) / f64::from(per_second));
    let flow = Flow::PerSecond(per_second.into());
    measure(settings, (settings.duration * FIXED_RATE_LASTS).max(turn), connections, sinks, flow)
}

fn measure(
    settings: &Settings,
    duration: Duration,
    connections: usize,
    sinks: usize,
    flow: Flow,
) -> anyhow::Result<Sample> {
    let threads = threads_beside(settings.workers);
    stream_to_product(settings, sinks, duration, &move |server| Streams {
        server,
        threads,
        connections,
        level: AckLevel::Durable,
        message_bytes: MESSAGE_BYTES,
        records: RECORDS,
        flow,
    })
}
