//! Seed 001: DNS answered from memory, processor time against the rate, beside Unbound with and without so-reuseport.

use crate::load::names::{self, Queries};
use crate::load::threads_beside;
use crate::metric::Metric;
use crate::peers::{self, examples, unbound};
use crate::plan::Plan;
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::settings::Settings;

/// Queries a second.
const RATES: [u32; 4] = [10_000, 20_000, 40_000, 80_000];
const SOCKETS: usize = 64;

/// Who answers.
#[derive(Debug, Clone, Copy)]
enum Server {
    /// The example of bbq-listen, by this distribution.
    Own(&'static str),
    /// Unbound, with so-reuseport yes or no.
    Unbound(&'static str),
}

impl Server {
    fn name(self) -> String {
        match self {
            Server::Own(distribution) => format!("dns_cache {distribution}"),
            Server::Unbound(so_reuseport) => format!("Unbound so-reuseport {so_reuseport}"),
        }
    }
}

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let mut servers = Vec::new();
    if examples::are_built(settings, &mut left_out) {
        servers.extend([Server::Own("reuseport"), Server::Own("shared")]);
    }
    if settings.peers && peers::installed("unbound", &mut left_out) {
        servers.extend([Server::Unbound("yes"), Server::Unbound("no")]);
    }
    let row = |server: Server, name: String, per_second: Option<f64>| {
        let row = Row::new(name, move |settings| measure(settings, server, per_second));
        match per_second {
            Some(per_second) => row.asking(per_second, Metric::OfferedRate),
            None => row,
        }
    };
    let paced = servers.iter().flat_map(|server| {
        RATES.map(|rate| row(*server, format!("{}, {} k/s", server.name(), rate / 1000), Some(rate.into())))
    });
    let full = servers.iter().map(|server| row(*server, server.name(), None));
    let about = "A query by UDP for one of 1,000 names, from 64 sockets. An answer after 500 ms is lost.";
    let section = |title, drawing, rows| {
        let columns = [
            Metric::OfferedRate,
            Metric::Rate,
            Metric::ServerCpu,
            Metric::ServerBusy,
            Metric::LatencyP50,
            Metric::LatencyP99,
            Metric::Loss,
            Metric::ClientCpu,
            Metric::ClientBusy,
            Metric::LargestShare,
        ];
        Section::new(title, about, &columns, drawing, rows)
    };
    let sections = vec![
        section(
            "processor time against the rate",
            Drawing::Curve { x: Metric::OfferedRate, y: Metric::ServerBusy },
            paced.collect(),
        ),
        section("as fast as answers come", Drawing::Bars(Metric::ServerCpu), full.collect())
            .beside(&Server::Unbound("yes").name(), Metric::ServerCpu),
    ];
    Ok(Plan { left_out, ..Plan::of(sections) })
}

fn measure(settings: &Settings, server: Server, per_second: Option<f64>) -> anyhow::Result<Sample> {
    let started = match server {
        Server::Own(distribution) => examples::start(settings, "dns_cache", distribution, &[])?,
        Server::Unbound(so_reuseport) => unbound::start(settings, so_reuseport)?,
    };
    let (mut lost, mut offered) = (0.0, 0.0);
    let mut sample = started.measure(|server| {
        let asked = names::run(&Queries {
            server,
            threads: threads_beside(settings.workers),
            sockets: SOCKETS,
            per_second,
            duration: settings.duration,
        })?;
        lost = asked.asked.saturating_sub(asked.load.operations) as f64 * 100.0 / asked.asked as f64;
        offered = asked.asked as f64 / asked.load.took.as_secs_f64();
        Ok(asked.load)
    })?;
    sample.set(Metric::Loss, lost);
    sample.set(Metric::OfferedRate, offered);
    Ok(sample)
}
