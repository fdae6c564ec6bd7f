//! Seed 000, by the example greeter of bbq-listen: a name per connection from several clients, `Hello, NAME` in a log for each thread, by every distribution.

use std::fs;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::listen::DISTRIBUTIONS;
use crate::load::churn::{self, Messages};
use crate::meter::Meter;
use crate::metric::Metric;
use crate::peers::examples;
use crate::plan::Plan;
use crate::results::Results;
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::settings::Settings;

/// The seed has 4 processes of 10,000 requests each.
const CLIENTS: usize = 4;
const GREETINGS: f64 = 40_000.0;
const INSTEAD: &str =
    "bbq bench listen --only \"a connection for each request\" measures the same distributions over HTTP";

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let mut rows = Vec::new();
    if examples::are_built_or(INSTEAD, settings, &mut left_out) {
        rows.extend(
            DISTRIBUTIONS
                .map(|distribution| Row::new(distribution, move |settings| measure(settings, distribution))),
        );
    }
    let section = Section::new(
        "greetings, a connection each, 4 clients",
        "The client sends a name and closes; the worker that reads it writes a line to its log. Every sample's logs are counted: a \
         greeting that is not there fails it. Who finds the accept queue full (4,096) tries again after a second, as the kernel does \
         for him: over 100 ms are those.",
        &[
            Metric::Rate,
            Metric::ServerCpu,
            Metric::ServerSystemCpu,
            Metric::ClientCpu,
            Metric::LatencyMax,
            Metric::Late,
            Metric::Sockets,
            Metric::LargestShare,
            Metric::OthersBusy,
        ],
        Drawing::Bars(Metric::ServerCpu),
        rows,
    )
    .of("greeting")
    .beside(DISTRIBUTIONS[0], Metric::ServerCpu);
    Ok(Plan { left_out, conclude: Some(Box::new(conclude)), ..Plan::of(vec![section]) })
}

fn measure(settings: &Settings, distribution: &str) -> anyhow::Result<Sample> {
    let server = examples::start(settings, "greeter", distribution, &[])?;
    let meter = Meter::start(Some(server.pid()))?;
    let load = churn::run(
        &Messages {
            server: server.address(),
            threads: CLIENTS,
            duration: settings.duration,
            message: b"Alice",
        },
        &AtomicU64::new(0),
    )?;
    let mut greeted = Vec::new();
    let all = crate::pause::wait_for(Duration::from_secs(10), || {
        greeted = (0..settings.workers)
            .map(|worker| {
                Ok(fs::metadata(settings.directory.join(format!("worker_{worker}.log")))?.len() / LINE_BYTES)
            })
            .collect::<anyhow::Result<_>>()?;
        Ok((greeted.iter().sum::<u64>() == load.operations).then_some(()))
    })?;
    anyhow::ensure!(all.is_some(), "{} names were sent, in the logs are {greeted:?}", load.operations);
    let mut sample = meter.stop(&load)?;
    sample.set(Metric::Sockets, server.listening() as f64);
    server.stop()?;
    sample.set_shares(greeted);
    Ok(sample)
}

const LINE_BYTES: u64 = "Hello, Alice\n".len() as u64;

/// What the seed's `time` shows, for as many greetings as it sends.
fn conclude(results: &Results<'_>) -> Vec<String> {
    let Some(section) = results.sections.first().filter(|section| !section.rows.is_empty()) else {
        return Vec::new();
    };
    let mut lines = vec![
        "For 40,000 greetings (in the article about SO_REUSEPORT: shared 43.6 s, sys 38.7 s; reuseport 31.8 s, sys 20.7 s):"
            .to_owned(),
    ];
    for row in &section.rows {
        let median = |metric| row.spread(metric).map(|spread| spread.median);
        let (Some(rate), Some(server), Some(client)) =
            (median(Metric::Rate), median(Metric::ServerCpu), median(Metric::ClientCpu))
        else {
            continue;
        };
        let system = median(Metric::ServerSystemCpu).unwrap_or(0.0);
        lines.push(format!(
            "  {:14} wall {:.2} s, server {:.2} s (sys {:.2} s), clients {:.2} s",
            row.name,
            GREETINGS / rate,
            GREETINGS * server / 1e6,
            GREETINGS * system / 1e6,
            GREETINGS * client / 1e6,
        ));
    }
    lines
}
