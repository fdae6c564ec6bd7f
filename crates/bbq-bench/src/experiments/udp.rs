//! Datagrams: what is lost as they come faster, and whether the server knows it.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use crate::load::datagrams::{self, Datagrams};
use crate::meter::Meter;
use crate::metric::Metric;
use crate::pause::{self, wait_for};
use crate::peers;
use crate::peers::floor::{self, Floor};
use crate::plan::Plan;
use crate::product::{Product, Sinks, shares};
use crate::results::Results;
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::settings::Settings;
use crate::spread::Spread;

/// Datagrams a second.
const RATES: [u32; 6] = [25_000, 100_000, 200_000, 300_000, 400_000, 800_000];
const OWN: &str = "bbq whole+udp";
const FLOOR: &str = "bare C recvmmsg";
const BYTES: usize = 256;
const SENDERS: usize = 16;
/// Who has received nothing more for so long has received what comes.
const QUIET: Duration = Duration::from_millis(300);
const QUIET_WITHIN: Duration = Duration::from_secs(20);

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for rate in RATES {
        rows.push(row(OWN, rate, move |settings| to_product(settings, rate.into(), "")));
    }
    if let Some(floor) = floor::available(settings, "udp_recvmmsg", &mut left_out) {
        for rate in RATES {
            let floor = floor.clone();
            rows.push(other(FLOOR, rate, move |settings| to_floor(settings, &floor, rate.into())));
        }
    }
    for (name, start) in peers::available(settings, &peers::DATAGRAM_SERVERS, &mut left_out) {
        for rate in RATES {
            rows.push(other(name, rate, move |settings| to_peer(settings, start, rate.into())));
        }
    }
    let section = Section::new(
        "256 B datagrams to a file, against the rate",
        "16 senders on loopback, open loop: they do not wait; what is due together leaves in one call (UDP GSO). lost: sent \
                and not delivered; counted: of what was sent, what the server says was dropped. All asked for a receive buffer of \
                4 MiB. bare C calls recvmmsg in as many threads, and keeps nothing.",
        &[
            Metric::OfferedRate,
            Metric::Rate,
            Metric::Loss,
            Metric::LossCounted,
            Metric::ServerCpu,
            Metric::ClientCpu,
            Metric::ClientBusy,
            Metric::LargestShare,
        ],
        Drawing::Curve { x: Metric::OfferedRate, y: Metric::ServerCpu },
        rows,
    )
    .of("datagram");
    Ok(Plan { left_out, conclude: Some(Box::new(conclude)), ..Plan::of(vec![section]) })
}

/// A point of a line.
fn at_rate(name: &str, per_second: u32) -> String {
    format!("{name}, {} k/s", per_second / 1000)
}

fn row(name: &str, per_second: u32, measure: impl Fn(&Settings) -> anyhow::Result<Sample> + 'static) -> Row {
    Row::new(at_rate(name, per_second), measure).asking(per_second.into(), Metric::OfferedRate)
}

fn other(
    name: &str,
    per_second: u32,
    measure: impl Fn(&Settings) -> anyhow::Result<Sample> + 'static,
) -> Row {
    Row { is_ours: false, ..row(name, per_second, measure) }
}

fn conclude(results: &Results<'_>) -> Vec<String> {
    let find = |name: &str, rate: u32| results.row(&at_rate(name, rate));
    let (mut ratios, mut missed) = (Vec::new(), Vec::new());
    for rate in RATES {
        let (Some(own), Some(floor)) = (find(OWN, rate), find(FLOOR, rate)) else { continue };
        let name = format!("{} k/s", rate / 1000);
        if own.falls_short() || floor.falls_short() {
            missed.push(name);
        } else if let Some(ratio) =
            Spread::of_ratios(&own.values(Metric::ServerCpu), &floor.values(Metric::ServerCpu))
        {
            ratios.push(format!("{:.2} at {name}", ratio.median));
        }
    }
    let mut said = Vec::new();
    if !ratios.is_empty() {
        said.push(format!(
            "Server CPU of a datagram that arrived, as a multiple of the bare loop's: {}.",
            ratios.join(", ")
        ));
    }
    if !missed.is_empty() {
        said.push(format!(
            "Not compared with the bare loop, as the load did not reach it: {}.",
            missed.join(", ")
        ));
    }
    said
}

fn load(settings: &Settings, server: std::net::SocketAddrV4, per_second: f64) -> Datagrams {
    Datagrams { server, senders: SENDERS, bytes: BYTES, per_second, duration: settings.duration }
}

pub(super) fn to_product(
    settings: &Settings,
    per_second: f64,
    configuration: &str,
) -> anyhow::Result<Sample> {
    let product = Product::start(settings, "whole+udp", Sinks::Files(1), configuration)?;
    let meter = Meter::start(Some(product.pid()))?;
    let mut load = datagrams::run(&load(settings, product.address(), per_second))?;
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
    let mut peer = start(settings)?;
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

fn to_floor(settings: &Settings, floor: &Floor, per_second: f64) -> anyhow::Result<Sample> {
    let server = floor.start(settings, &[&settings.workers.to_string()])?;
    let meter = Meter::start(None)?;
    let mut load = datagrams::run(&load(settings, server.address(), per_second))?;
    pause::until(Instant::now() + QUIET); // it looks at nothing, so it has what came
    let sent = load.operations;
    let totals = server.stop(false)?;
    let received = totals.messages.context("the floor does not say how many came")?;
    load.operations = received;
    load.bytes = received * BYTES as u64;
    let mut sample = meter.stop_ended(&load, totals.cpu())?;
    describe(&mut sample, sent, received, load.took);
    Ok(sample)
}

fn describe(sample: &mut Sample, sent: u64, received: u64, took: Duration) {
    sample.set(Metric::OfferedRate, sent as f64 / took.as_secs_f64());
    sample.set(Metric::Loss, (sent as f64 - received as f64) * 100.0 / sent as f64);
}

/// The status when nothing has come for a while and nothing is queued.
fn wait_quiet(product: &Product) -> anyhow::Result<Value> {
    let (mut last, mut since) = (None, Instant::now());
    let quiet = wait_for(QUIET_WITHIN, || {
        let status = product.status()?;
        let ledger = status["ledger"].to_string();
        if last.as_ref() != Some(&ledger) {
            (last, since) = (Some(ledger), Instant::now());
        }
        Ok((status["ledger"]["queued"] == 0 && since.elapsed() >= QUIET).then_some(status))
    })?;
    quiet.context("the server does not come to rest")
}

/// By the server, and by the kernel as the server tells: the ledger has both.
fn dropped(status: &Value) -> u64 {
    let reasons = status["ledger"]["dropped"].as_object();
    reasons.into_iter().flatten().filter_map(|(_, dropped)| dropped.as_u64()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{RowResults, SectionResults};

    #[test]
    fn rates_that_were_not_reached_are_not_compared() {
        let nothing = |_: &Settings| Ok(Sample::default());
        let plan = [OWN, FLOOR].map(|name| RATES.map(|rate| row(name, rate, nothing)));
        let rows = plan.iter().flatten().map(|row| {
            let mut sample = Sample::default();
            let asked = row.asked.unwrap().per_second;
            sample.set(Metric::OfferedRate, asked.min(350_000.0));
            sample.set(Metric::ServerCpu, if row.name.starts_with(OWN) { 3.0 } else { 2.0 });
            RowResults { name: &row.name, asked: row.asked, samples: vec![Some(sample)] }
        });
        let section = Section::blank();
        let sections = vec![SectionResults { section: &section, rows: rows.collect() }];
        let said = conclude(&Results { sections, failures: Vec::new() });
        assert!(said[0].ends_with("1.50 at 200 k/s, 1.50 at 300 k/s."), "{said:?}");
        assert!(said[1].ends_with("did not reach it: 400 k/s, 800 k/s."), "{said:?}");
    }

    #[test]
    fn what_the_kernel_dropped_is_counted_once() {
        let status = serde_json::json!({
            "ledger": {"received": 90, "dropped": {"kernel": 10, "oversize": 2}},
            "listeners": [{"sockets": [{"drops": 10}]}],
        });
        assert_eq!(dropped(&status), 12);
    }
}
