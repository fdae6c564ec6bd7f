//! Seed 002's stress test: messages of 4 KiB, a connection each, from 4 threads as fast as they go.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::load::Load;
use crate::load::churn::{self, Messages};
use crate::meter::Meter;
use crate::metric::Metric;
use crate::peers::floor;
use crate::plan::Plan;
use crate::product::{Product, Sinks, shares};
use crate::results::Results;
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::settings::Settings;

/// As the seed has them.
const THREADS: usize = 4;
const MESSAGE_BYTES: usize = 4096;
const FLOOR: &str = "bare C, reuseport, nothing stored";
/// Between two looks at how much is pending.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let mut rows = vec![Row::new("bbq whole+tcp, spool and file", to_product)];
    if let Some(floor) = floor::available(settings, "churn_reuseport", &mut left_out) {
        rows.push(Row::other(FLOOR, move |settings| to_floor(settings, &floor)));
    }
    let section = Section::new(
        "4 KiB messages, a connection each, 4 client threads",
        "The sender closes at once and is told nothing. bbq stores and syncs every message, and writes it to a file; a send is from \
         the making of the socket to its close.",
        &[
            Metric::Rate,
            Metric::Throughput,
            Metric::LatencyMean,
            Metric::LatencyP99,
            Metric::LatencyMax,
            Metric::Late,
            Metric::PendingMax,
            Metric::ServerCpu,
            Metric::ClientCpu,
            Metric::LargestShare,
            Metric::OthersBusy,
        ],
        Drawing::Bars(Metric::Rate),
        rows,
    )
    .beside(FLOOR, Metric::ServerCpu);
    Ok(Plan { left_out, conclude: Some(Box::new(seeds_table)), ..Plan::of(vec![section]) })
}

fn load(settings: &Settings, server: std::net::SocketAddrV4, sent: &AtomicU64) -> anyhow::Result<Load> {
    let message: Vec<u8> = (b'a'..=b'z').cycle().take(MESSAGE_BYTES).collect();
    churn::run(&Messages { server, threads: THREADS, duration: settings.duration, message: &message }, sent)
}

fn to_product(settings: &Settings) -> anyhow::Result<Sample> {
    let mut product = Product::start(settings, "whole+tcp", Sinks::Files(1), "")?;
    let meter = Meter::start(Some(product.pid()))?;
    let (over, sent, mut pending_max) = (AtomicBool::new(false), AtomicU64::new(0), 0);
    let load = std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch_pending(&product, &over, &sent));
        let load = load(settings, product.address(), &sent);
        over.store(true, Ordering::Relaxed);
        watching.thread().unpark();
        pending_max = watching.join().unwrap_or(0);
        load
    })?;
    let status = product.wait_delivered(load.operations, load.bytes + load.operations)?;
    let mut sample = meter.stop(&load)?;
    sample.set(Metric::PendingMax, pending_max as f64);
    sample.set_shares(shares(&status, settings.workers));
    product.stop()?;
    Ok(sample)
}

/// What was sent and is not delivered, at most, as seen now and then.
fn watch_pending(product: &Product, over: &AtomicBool, sent: &AtomicU64) -> u64 {
    let mut most = 0;
    while !over.load(Ordering::Relaxed) {
        let sent = sent.load(Ordering::Relaxed); // before: what is delivered meanwhile is not pending
        let delivered = product.written() / (MESSAGE_BYTES as u64 + 1);
        most = most.max(sent.saturating_sub(delivered));
        std::thread::park_timeout(LOOK);
    }
    most
}

fn to_floor(settings: &Settings, floor: &floor::Floor) -> anyhow::Result<Sample> {
    floor.measure(settings, &[&settings.workers.to_string()], false, |server| {
        load(settings, server, &AtomicU64::new(0))
    })
}

/// The lines that the seed's programs print, with what they were there.
fn seeds_table(results: &Results<'_>) -> Vec<String> {
    let Some(row) = results.sections.first().and_then(|section| section.rows.first()) else {
        return Vec::new();
    };
    let median = |metric| row.spread(metric).map(|spread| spread.median);
    let (Some(rate), Some(megabytes), Some(mean), Some(max), Some(pending)) = (
        median(Metric::Rate),
        median(Metric::Throughput),
        median(Metric::LatencyMean),
        median(Metric::LatencyMax),
        median(Metric::PendingMax),
    ) else {
        return Vec::new();
    };
    vec![
        "The table of BBQ, the Windows library that bbq is named after (in brackets its own figures, on an Intel Core i5-2500, \
         over a busy network card):"
            .to_owned(),
        format!("  server accepts: {rate:.2} per sec (1070.96)"),
        format!("  server receives: {rate:.2} per sec (1070.96), {megabytes:.2} MB per sec (4.39)"),
        format!("  max pending msgs: {pending:.0} (1647), curr pending msgs: 0 (0)"),
        format!("  clients sends: {rate:.2} per sec (1005.55), {megabytes:.2} MB per sec (4.12)"),
        "  clients fails: 0 (56), connections fails: 0 (184): a round with one would have failed".to_owned(),
        format!("  max sendtime: {:.4} secs (5.03), avg sendtime: {:.6} secs (3.81)", max / 1e6, mean / 1e6),
    ]
}
