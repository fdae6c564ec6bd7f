//! What a message costs as there is more of everything: connections, sinks, and what is in the spool already.

mod spool;

use std::time::Duration;

use bbq_wire::AckLevel;

use super::streaming::stream_to_product;
use crate::load::session::Streams;
use crate::load::threads_beside;
use crate::metric::Metric;
use crate::plan::{Drawing, Plan, Row, Section};
use crate::sample::Sample;
use crate::settings::Settings;

const CONNECTIONS: [usize; 4] = [10, 100, 1_000, 10_000];
const SINKS: [usize; 4] = [1, 2, 4, 8];
const MESSAGE_BYTES: usize = 100;
/// Messages of a batch: as the clients of a busy server have them, not as one that sends alone.
const RECORDS: u32 = 100;
/// Batches on their way, of all connections together, or one each.
const WINDOW: usize = 1_000;
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
    let connections = fit.into_iter().map(|count| {
        Row::new(format!("bbq, {count} connections"), move |settings| measure(settings, count, 1))
    });
    let sinks = SINKS
        .map(|sinks| Row::new(format!("bbq, {sinks} sinks"), move |settings| measure(settings, 100, sinks)));
    let spool = spool::rows(settings, short, &mut left_out)?;
    let section = |title: &str, about: &str, rows| Section {
        title: title.to_owned(),
        about: about.to_owned(),
        columns: vec![
            Metric::Rate,
            Metric::ServerCpu,
            Metric::ServerSystemCpu,
            Metric::ClientCpu,
            Metric::LatencyP99,
            Metric::Start,
            Metric::OthersBusy,
        ],
        baseline: Some((0, Metric::ServerCpu)),
        drawing: Drawing::Bars(Metric::ServerCpu),
        rows,
    };
    let sections = vec![
        section(
            "connections",
            "100 B messages in batches of 100, each connection a stream, 1,000 batches on their way or one for each \
             connection; acknowledged when on disk, and written to a file.",
            connections.collect(),
        ),
        section("sinks", "The same with 100 connections, written to so many files.", sinks.into()),
        section(
            "what is in the spool already",
            "The same with 100 connections and a sink that takes nothing, so that all stays in the spool. start: what the server \
             takes to be ready again after a kill, with all of that and what the sample has added.",
            spool,
        ),
    ];
    Ok(Plan { left_out, ..Plan::of(sections) })
}

fn measure(settings: &Settings, connections: usize, sinks: usize) -> anyhow::Result<Sample> {
    let threads = threads_beside(settings.workers);
    stream_to_product(settings, sinks, &move |server| Streams {
        server,
        threads,
        connections,
        level: AckLevel::Durable,
        message_bytes: MESSAGE_BYTES,
        records: RECORDS,
        window: (WINDOW / connections).max(1),
    })
}
