//! What an acknowledgement costs in time: clients that wait for each, and clients that keep several on their way, beside
//! the disk alone.

use std::fs::File;
use std::io::Write;
use std::time::Instant;

use anyhow::Context;
use bbq_wire::AckLevel;

use super::streaming::stream_to_product;
use super::udp::to_product as datagrams_to_product;
use crate::interrupt;
use crate::load::jetstream::Publishers;
use crate::load::session::{Flow, Streams};
use crate::load::threads::{self, Done};
use crate::load::threads_beside;
use crate::meter::Meter;
use crate::metric::Metric;
use crate::peers::nats::{self, JetStream};
use crate::plan::Plan;
use crate::results::Results;
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::settings::Settings;
use crate::spread::Spread;

const MESSAGE_BYTES: usize = 256;
const CLIENTS: [usize; 5] = [1, 4, 16, 64, 256];
const WINDOWS: [usize; 4] = [1, 8, 64, 512];
/// Of the sentences at the end.
const MANY: usize = 64;
const PIPELINED: usize = 512;
/// 10 is the default.
const INTERVALS_MS: [u32; 5] = [0, 1, 10, 100, 1000];
const DATAGRAMS_PER_SECOND: f64 = 20_000.0;
const SYNC_BYTES: usize = 4096;
const COLUMNS: [Metric; 8] = [
    Metric::Rate,
    Metric::LatencyP50,
    Metric::LatencyP99,
    Metric::LatencyP999,
    Metric::LatencyMax,
    Metric::ServerCpu,
    Metric::ClientCpu,
    Metric::OthersBusy,
];

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let jetstream = nats::jetstream(settings, &mut left_out);
    let mut waiting = vec![Row::other("write of 4 KiB and fdatasync, no server", sync_alone)];
    for (name, level) in [("durable", AckLevel::Durable), ("received", AckLevel::Received)] {
        waiting.extend(CLIENTS.map(|clients| {
            Row::new(waiting_name(name, clients), move |settings| measure(settings, level, clients, 1))
        }));
    }
    let of_jetstream = |connections, window, name: String| {
        let row = |server: JetStream| {
            Row::other(name, move |settings| publish(settings, &server, connections, window))
        };
        jetstream.clone().map(row)
    };
    waiting.extend(
        [1, MANY].into_iter().filter_map(|clients| of_jetstream(clients, 1, jetstream_waiting(clients))),
    );
    let mut pipelined: Vec<Row> = WINDOWS
        .map(|window| {
            Row::new(durable_on_their_way(window), move |settings| {
                measure(settings, AckLevel::Durable, 1, window)
            })
        })
        .into();
    pipelined.extend(of_jetstream(1, PIPELINED, jetstream_on_their_way(PIPELINED)));
    let drawing = Drawing::Curve { x: Metric::Rate, y: Metric::LatencyP50 };
    let section = |title: &str, about: &str, rows| Section::new(title, about, &COLUMNS, drawing, rows);
    let waiting = Section {
        baseline: Some((0, Metric::LatencyP99)),
        ..section(
            "clients that wait for each message",
            "256 B, a batch each. durable: written and synced (fdatasync) before it is acknowledged, by one sync for all that \
             wait, and handed on to a file; received: acknowledged from memory, synced at the latest spool.flush_interval_ms later. \
             JetStream with sync_interval: always syncs each message before it acknowledges it, too, and hands it on to nobody.",
            waiting,
        )
    };
    let pipelined = section(
        "one client that does not wait for each",
        "256 B, a batch each, acknowledged when on disk; as above.",
        pipelined,
    );
    Ok(Plan {
        left_out,
        conclude: Some(Box::new(conclude)),
        ..Plan::of(vec![waiting, pipelined, nobody_waits()])
    })
}

/// What the time that messages may collect costs.
fn nobody_waits() -> Section {
    let row = |interval_ms: u32| {
        Row::new(format!("flush_interval_ms = {interval_ms}"), move |settings| {
            let configuration = format!("[spool]\nflush_interval_ms = {interval_ms}\n");
            datagrams_to_product(settings, DATAGRAMS_PER_SECOND, &configuration)
        })
        .asking(DATAGRAMS_PER_SECOND, Metric::OfferedRate)
    };
    Section::new(
        "20,000 datagrams a second, by spool.flush_interval_ms",
        "256 B by UDP, of which nobody is told anything: a crash takes at most what came in so many milliseconds.",
        &[
            Metric::OfferedRate,
            Metric::Rate,
            Metric::Loss,
            Metric::ServerCpu,
            Metric::ServerSystemCpu,
            Metric::OthersBusy,
        ],
        Drawing::Bars(Metric::ServerCpu),
        INTERVALS_MS.map(row).into(),
    )
    .of("datagram")
}

fn measure(
    settings: &Settings,
    level: AckLevel,
    connections: usize,
    window: usize,
) -> anyhow::Result<Sample> {
    let threads = threads_beside(settings.workers).min(connections);
    stream_to_product(settings, 1, settings.duration, &move |server| Streams {
        server,
        threads,
        connections,
        level,
        message_bytes: MESSAGE_BYTES,
        records: 1,
        flow: Flow::Window(window),
    })
}

/// What the disk takes, one after the other.
fn sync_alone(settings: &Settings) -> anyhow::Result<Sample> {
    let mut file = File::create(settings.directory.join("file")).context("cannot write in --data")?;
    let meter = Meter::start(None)?;
    let end = Instant::now() + settings.duration;
    let load = threads::run([move || {
        let mut done = Done::nothing()?;
        loop {
            interrupt::check()?;
            let began = Instant::now();
            if began >= end {
                return Ok(done);
            }
            file.write_all(&[b'x'; SYNC_BYTES]).context("write")?;
            file.sync_data().context("fdatasync")?;
            done.count(began.elapsed());
        }
    }])?;
    meter.stop(&load)
}

/// Messages to JetStream, by so many connections, each with so many on their way.
fn publish(
    settings: &Settings,
    server: &JetStream,
    connections: usize,
    window: usize,
) -> anyhow::Result<Sample> {
    let peer = server.start(settings)?;
    let mut clients = Publishers {
        server: peer.address(),
        threads: threads_beside(settings.workers).min(connections),
        connections,
        message_bytes: MESSAGE_BYTES,
        window,
    }
    .connect()?;
    let meter = Meter::start(Some(peer.pid()))?;
    let sample = meter.stop(&clients.run(settings.duration)?)?;
    peer.kill();
    Ok(sample)
}

fn conclude(results: &Results<'_>) -> Vec<String> {
    // Within each round, of the rows with these names.
    let ratio = |upper: String, lower: String| {
        let rates = |name: &str| Some(results.row(name)?.values(Metric::Rate));
        Some(Spread::of_ratios(&rates(&upper)?, &rates(&lower)?)?.median)
    };
    let one = || waiting_name("durable", 1);
    let mut said = Vec::new();
    if let (Some(many), Some(pipelined)) =
        (ratio(waiting_name("durable", MANY), one()), ratio(durable_on_their_way(PIPELINED), one()))
    {
        said.push(format!(
            "{MANY} clients that wait have {many:.1} times the durable rate of one; one that keeps {PIPELINED} on their way has \
             {pipelined:.1} times."
        ));
    }
    if let (Some(one), Some(many), Some(pipelined)) = (
        ratio(one(), jetstream_waiting(1)),
        ratio(waiting_name("durable", MANY), jetstream_waiting(MANY)),
        ratio(durable_on_their_way(PIPELINED), jetstream_on_their_way(PIPELINED)),
    ) {
        said.push(format!(
            "Durable is {one:.1} times the rate of JetStream that syncs each message with one client that waits, {many:.1} times \
             with {MANY}, and {pipelined:.1} times with one that keeps {PIPELINED} on their way."
        ));
    }
    said
}

fn waiting_name(level: &str, clients: usize) -> String {
    format!("{level}, {clients} waiting")
}

fn durable_on_their_way(window: usize) -> String {
    format!("durable, {window} on their way")
}

fn jetstream_waiting(clients: usize) -> String {
    format!("JetStream sync_interval always, {clients} waiting")
}

fn jetstream_on_their_way(window: usize) -> String {
    format!("JetStream sync_interval always, {window} on their way")
}
