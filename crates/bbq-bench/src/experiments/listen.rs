//! Which distribution to choose: every one of them, with connections that stay open and with one for each request, with a
//! handler that does next to nothing and one that works, and at two addresses.

use std::time::Duration;

use crate::listen_server::ListenServer;
use crate::load::{http, threads_beside};
use crate::meter::Meter;
use crate::metric::Metric;
use crate::plan::Plan;
use crate::results::{Results, SectionResults};
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::server::ServeOptions;
use crate::settings::Settings;
use crate::verdict::{self, ALL_SECTIONS};

/// All that accept; `auto` is one of these.
pub(crate) const DISTRIBUTIONS: [&str; 6] =
    ["reuseport", "shared", "accept-mutex", "handoff", "handoff=fewest", "duplicate=2"];
/// A handler that looks something up, or renders a page.
const HEAVY: Duration = Duration::from_micros(100);

/// Connections in flight: as wrk is mostly told.
pub(crate) const CONNECTIONS: usize = 64;

/// One way of using a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) title: &'static str,
    pub(crate) addresses: usize,
    pub(crate) close: bool,
    pub(crate) work: Duration,
}

const CASES: [Case; 6] = [
    Case { title: "connections stay open", addresses: 1, close: false, work: Duration::ZERO },
    Case { title: "a connection for each request", addresses: 1, close: true, work: Duration::ZERO },
    Case { title: "connections stay open, 100 us of work", addresses: 1, close: false, work: HEAVY },
    Case { title: "a connection for each request, 100 us of work", addresses: 1, close: true, work: HEAVY },
    Case { title: "connections stay open, two addresses", addresses: 2, close: false, work: Duration::ZERO },
    Case {
        title: "a connection for each request, two addresses",
        addresses: 2,
        close: true,
        work: Duration::ZERO,
    },
];

pub(crate) fn plan(_settings: &Settings) -> anyhow::Result<Plan> {
    let sections = CASES.iter().map(|case| section(*case, &DISTRIBUTIONS)).collect();
    let verdicts = Box::new(|results: &Results<'_>, _: &SectionResults<'_>| decided(results));
    Ok(Plan { conclude: Some(Box::new(conclude)), verdicts, ..Plan::of(sections) })
}

/// A section with a row for each distribution.
pub(crate) fn section(case: Case, distributions: &[&'static str]) -> Section {
    let rows = distributions
        .iter()
        .copied()
        .map(|distribution| Row::new(distribution, move |settings| measure(settings, case, distribution)))
        .collect();
    let about =
        format!("HTTP on bbq-listen, {CONNECTIONS} connections in flight; who is answered asks again.");
    Section::new(
        case.title,
        about,
        &[
            Metric::Rate,
            Metric::LatencyP50,
            Metric::LatencyP99,
            Metric::LatencyP999,
            Metric::LatencyMax,
            Metric::LatencyStdev,
            Metric::ServerCpu,
            Metric::ClientCpu,
            Metric::ClientBusy,
            Metric::LargestShare,
        ],
        Drawing::Bars(Metric::Rate),
        rows,
    )
    .of("request")
    .beside(distributions[0], Metric::Rate)
}

pub(crate) fn measure(settings: &Settings, case: Case, distribution: &str) -> anyhow::Result<Sample> {
    let listen = (1..=case.addresses).map(|address| format!("tcp://127.0.0.{address}:0")).collect();
    let options =
        ServeOptions { listen, work: case.work, ..ServeOptions::new(settings.workers, distribution) };
    let server = ListenServer::start(settings, &options)?;
    let meter = Meter::start(Some(server.pid()))?;
    let load = http::run(&http::Requests {
        servers: server.addresses(),
        threads: threads_beside(settings.workers),
        connections: CONNECTIONS,
        close: case.close,
        duration: settings.duration,
    })?;
    let mut sample = meter.stop(&load)?;
    sample.set_shares(server.stop()?);
    Ok(sample)
}

fn conclude(results: &Results<'_>) -> Vec<String> {
    verdict::choose(results, "auto, which is reuseport here")
}

/// The last of the conclusions, which is about all sections.
fn decided(results: &Results<'_>) -> Vec<String> {
    let last = conclude(results).pop();
    last.map(|verdict| format!("{ALL_SECTIONS}{verdict}")).into_iter().collect()
}
