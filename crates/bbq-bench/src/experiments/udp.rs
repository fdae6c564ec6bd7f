//! Datagrams: what is lost as they come faster, and whether the server knows it.

use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::directory;
use crate::load::datagrams::{self, Datagrams};
use crate::meter::Meter;
use crate::metric::Metric;
use crate::pause::wait_for;
use crate::peers;
use crate::plan::{Drawing, Plan, Row, Section};
use crate::product::{Product, ProductOptions, Sinks, listeners, shares};
use crate::sample::Sample;
use crate::settings::Settings;

/// Datagrams a second.
const RATES: [u32; 5] = [25_000, 50_000, 100_000, 200_000, 400_000];
const BYTES: usize = 256;
const SENDERS: usize = 16;
/// Who has received nothing more for so long has received what comes.
const QUIET: Duration = Duration::from_millis(300);
const QUIET_WITHIN: Duration = Duration::from_secs(20);

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for per_second in RATES {
        let name = format!("bbq whole+udp, {} k/s", per_second / 1000);
        rows.push(Row::new(name, move |settings| to_product(settings, per_second.into(), "")));
    }
    for (name, start) in peers::available(settings, &peers::DATAGRAM_SERVERS, &mut left_out) {
        for per_second in RATES {
            let name = format!("{name}, {} k/s", per_second / 1000);
            rows.push(Row::new(name, move |settings| to_peer(settings, start, per_second.into())));
        }
    }
    let section = Section {
        title: "256 B datagrams to a file, against the rate".to_owned(),
        about: "16 senders on loopback, open loop: they do not wait. lost: sent and not delivered; counted: of what was \
                sent, what the server says was dropped."
            .to_owned(),
        columns: vec![
            Metric::OfferedRate,
            Metric::Rate,
            Metric::Loss,
            Metric::LossCounted,
            Metric::ServerCpu,
            Metric::ClientCpu,
            Metric::ClientBusy,
            Metric::LargestShare,
        ],
        baseline: None,
        drawing: Drawing::Curve { x: Metric::OfferedRate, y: Metric::ServerCpu },
        rows,
    };
    Ok(Plan { left_out, ..Plan::of(vec![section]) })
}

fn load(settings: &Settings, server: std::net::SocketAddrV4, per_second: f64) -> Datagrams {
    Datagrams { server, senders: SENDERS, bytes: BYTES, per_second, duration: settings.duration }
}

pub(super) fn to_product(
    settings: &Settings,
    per_second: f64,
    configuration: &str,
) -> anyhow::Result<Sample> {
    let directory = directory::make(&settings.directory)?;
    let options =
        ProductOptions { listen: &["whole+udp://127.0.0.1:0"], sinks: Sinks::Files(1), configuration };
    let product = Product::start(settings, directory.path(), &options)?;
    let meter = Meter::start(Some(product.pid()))?;
    let mut load = datagrams::run(&load(settings, product.addresses()[0], per_second))?;
    let status = wait_quiet(&product)?;
    let sent = load.operations;
    let received = status["ledger"]["delivered"].as_u64().context("the status has no ledger")?;
    let counted = dropped(&status);
    load.operations = received;
    load.bytes = received * BYTES as u64;
    let mut sample = meter.stop(&load)?;
    describe(&mut sample, sent, received, load.took);
    sample.set(Metric::LossCounted, counted as f64 * 100.0 / sent as f64);
    sample.set_shares(shares(&status, settings.workers));
    product.stop()?;
    Ok(sample)
}

fn to_peer(settings: &Settings, start: peers::Start, per_second: f64) -> anyhow::Result<Sample> {
    let directory = directory::make(&settings.directory)?;
    let mut peer = start(settings, directory.path())?;
    let meter = Meter::start(Some(peer.pid()))?;
    let mut load = datagrams::run(&load(settings, peer.address(), per_second))?;
    let sent = load.operations;
    let received = peer.wait_quiet(QUIET)? / (BYTES as u64 + 1);
    load.operations = received;
    load.bytes = received * BYTES as u64;
    let mut sample = meter.stop(&load)?;
    describe(&mut sample, sent, received, load.took);
    peer.stop()?;
    Ok(sample)
}

fn describe(sample: &mut Sample, sent: u64, received: u64, took: Duration) {
    sample.set(Metric::OfferedRate, sent as f64 / took.as_secs_f64());
    sample.set(Metric::Loss, (sent as f64 - received as f64) * 100.0 / sent as f64);
}

/// The status when nothing has come for a while and nothing is queued.
fn wait_quiet(product: &Product) -> anyhow::Result<Value> {
    let (mut last, mut since) = (None, std::time::Instant::now());
    let quiet = wait_for(QUIET_WITHIN, || {
        let status = product.status()?;
        let ledger = status["ledger"].to_string();
        if last.as_ref() != Some(&ledger) {
            (last, since) = (Some(ledger), std::time::Instant::now());
        }
        Ok((status["ledger"]["queued"] == 0 && since.elapsed() >= QUIET).then_some(status))
    })?;
    quiet.context("the server does not come to rest")
}

/// By the server, and by the kernel as the server tells.
fn dropped(status: &Value) -> u64 {
    let sum = |values: &Value| {
        values.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_u64()).sum::<u64>()
    };
    let sockets = listeners(status).flat_map(|listener| listener["sockets"].as_array().into_iter().flatten());
    sockets.filter_map(|socket| socket["drops"].as_u64()).sum::<u64>() + sum(&status["ledger"]["dropped"])
}
