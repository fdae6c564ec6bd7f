//! Connections that say nothing: what each takes of the server's memory.

use std::fs;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use bbq_wire::AckLevel;

use crate::cpu;
use crate::load::Load;
use crate::load::session::{Flow, Streams};
use crate::load::source::Sources;
use crate::meter::Meter;
use crate::metric::Metric;
use crate::pause::wait_for;
use crate::peers::{self, nginx};
use crate::plan::Plan;
use crate::product::{Product, Sinks};
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::settings::Settings;

const COUNTS: [usize; 3] = [1_000, 10_000, 100_000];
/// Descriptors of each side beyond its connections.
const DESCRIPTORS_ELSE: u64 = 200;
const SETTLED: Duration = Duration::from_millis(300);
const TAKEN_WITHIN: Duration = Duration::from_secs(60);

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = vec!["--duration: a sample lasts until all connections are there".to_owned()];
    let limit = bbq_listen::raise_descriptor_limit().soft;
    let counts = |left_out: &mut Vec<String>| -> Vec<usize> {
        let fits = |count: &usize| *count as u64 + DESCRIPTORS_ELSE <= limit;
        let too_many: Vec<String> =
            COUNTS.iter().filter(|count| !fits(count)).map(usize::to_string).collect();
        if !too_many.is_empty() {
            left_out
                .push(format!("{} connections: the limit of descriptors is {limit}", too_many.join(", ")));
        }
        // A short run is for a look.
        let most = if settings.duration < Duration::from_secs(1) { COUNTS[0] } else { usize::MAX };
        COUNTS.iter().copied().filter(|count| fits(count) && *count <= most).collect()
    };
    let counts = counts(&mut left_out);
    let mut rows = Vec::new();
    for count in &counts {
        let count = *count;
        rows.push(Row::new(format!("bbq lines+tcp, {count}"), move |settings| lines(settings, count)));
    }
    for count in counts.iter().copied().filter(|count| *count <= 10_000) {
        rows.push(Row::new(format!("bbq sessions, {count}"), move |settings| sessions(settings, count)));
    }
    if settings.peers && peers::installed("nginx", &mut left_out) {
        for count in counts {
            rows.push(Row::other(format!("nginx, {count}"), move |settings| of_nginx(settings, count)));
        }
    }
    let section = Section::new(
        "idle connections",
        "Memory of the server's processes (anonymous resident pages) with the connections, less that without, by the \
                connections. The kernel's own memory for sockets is not in it.",
        &[Metric::MemoryPerConnection, Metric::Rate, Metric::ServerCpu, Metric::OthersBusy],
        Drawing::Bars(Metric::MemoryPerConnection),
        rows,
    );
    Ok(Plan { left_out, ..Plan::of(vec![section.of("idle connection")]) })
}

fn lines(settings: &Settings, count: usize) -> anyhow::Result<Sample> {
    with_product(settings, "lines+tcp", count, |server| connect(server, count))
}

fn sessions(settings: &Settings, count: usize) -> anyhow::Result<Sample> {
    with_product(settings, "bbq+tcp", count, |server| {
        let streams = Streams {
            server,
            threads: 1,
            connections: count,
            level: AckLevel::Durable,
            message_bytes: 1,
            records: 1,
            flow: Flow::Window(1),
        };
        streams.connect()
    })
}

fn with_product<Held>(
    settings: &Settings,
    protocol: &str,
    count: usize,
    connect: impl FnOnce(SocketAddrV4) -> anyhow::Result<Held>,
) -> anyhow::Result<Sample> {
    let product = Product::start(settings, protocol, Sinks::Files(1), "")?;
    let open = || {
        let status = product.status()?;
        let workers = status["workers"].as_array().context("the status has no workers")?;
        Ok(workers.iter().filter_map(|worker| worker["connections"].as_u64()).sum())
    };
    let (sample, held) = hold(product.pid(), count, || connect(product.address()), open)?;
    drop(held);
    product.stop()?;
    Ok(sample)
}

fn of_nginx(settings: &Settings, count: usize) -> anyhow::Result<Sample> {
    let server = nginx::start(settings, nginx::MODES[0].1, None)?;
    // It has read the first byte of each: those that it has not accepted have no memory of it.
    let accepted = || Ok(count as u64);
    let (sample, held) = hold(server.pid(), count, || connect(server.address(), count), accepted)?;
    drop(held);
    server.stop()?;
    Ok(sample)
}

fn connect(server: SocketAddrV4, count: usize) -> anyhow::Result<Vec<OwnedFd>> {
    let sources = Sources::new()?;
    (0..count).map(|_| sources.connect(server).map(OwnedFd::from)).collect()
}

/// Connects, waits until the server has them all and its memory stands still.
fn hold<Held>(
    pid: u32,
    count: usize,
    connect: impl FnOnce() -> anyhow::Result<Held>,
    open: impl Fn() -> anyhow::Result<u64>,
) -> anyhow::Result<(Sample, Held)> {
    let before = settled_memory(pid)?;
    let meter = Meter::start(Some(pid))?;
    let began = Instant::now();
    let cpu_before = cpu::of_this_thread();
    let held = connect()?;
    let taken = wait_for(TAKEN_WITHIN, || Ok((open()? >= count as u64).then_some(())))?;
    anyhow::ensure!(taken.is_some(), "the server has {} of {count} connections", open()?);
    let after = settled_memory(pid)?;
    let load = Load {
        operations: count as u64,
        bytes: 0,
        took: began.elapsed(),
        cpu: cpu::of_this_thread() - cpu_before,
        threads: 1,
        latency: None,
    };
    let mut sample = meter.stop(&load)?;
    sample.set(Metric::MemoryPerConnection, after.saturating_sub(before) as f64 / count as f64);
    Ok((sample, held))
}

/// When it has not changed for a while: a server may still start, or still accept.
fn settled_memory(pid: u32) -> anyhow::Result<u64> {
    let (mut last, mut since) = (memory(pid)?, Instant::now());
    let settled = wait_for(TAKEN_WITHIN, || {
        let now = memory(pid)?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
        Ok((since.elapsed() >= SETTLED).then_some(last))
    })?;
    settled.context("the server's memory does not stand still")
}

/// Anonymous resident bytes of a process and its children.
fn memory(pid: u32) -> anyhow::Result<u64> {
    let mut sum = 0;
    for pid in cpu::family(pid) {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
        let kib: u64 =
            line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).context("no Anonymous")?;
        sum += kib * 1024;
    }
    Ok(sum)
}
