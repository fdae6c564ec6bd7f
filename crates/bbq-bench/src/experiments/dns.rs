//! Seed 001: DNS answered from memory, processor time against the rate, beside Unbound with and without so-reuseport.

use crate::load::names::{self, Queries};
use crate::load::threads_beside;
use crate::metric::Metric;
use crate::peers::{self, examples, unbound};
use crate::plan::Plan;
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::settings::Settings;

/// Queries a second, of the curve.
const RATES: [u32; 4] = [10_000, 20_000, 40_000, 80_000];
/// Queries a second, where servers are compared at a rate that all of them reach.
const MODERATE: u32 = 20_000;
/// Sockets of the load, of the curve.
const SOCKETS: usize = 64;
/// Sockets of the load, where servers are compared: few hash unevenly, and many bring one query at a time.
const SOCKETS_COMPARED: [usize; 3] = [8, SOCKETS, 512];

const INSTEAD: &str = "bbq bench udp measures datagrams to bbq, and with --peers, Unbound is measured alone";

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

    fn row(self, name: String, measure: impl Fn(&Settings) -> anyhow::Result<Sample> + 'static) -> Row {
        Row { is_ours: matches!(self, Server::Own(_)), ..Row::new(name, measure) }
    }
}

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let mut servers = Vec::new();
    if examples::are_built_or(INSTEAD, settings, &mut left_out) {
        servers.extend([Server::Own("reuseport"), Server::Own("shared")]);
    }
    if settings.peers && peers::installed("unbound", &mut left_out) {
        servers.extend([Server::Unbound("yes"), Server::Unbound("no")]);
    }
    let paced = |server: Server, name: String, sockets, rate: u32| {
        let per_second = f64::from(rate);
        server
            .row(name, move |settings| measure(settings, server, sockets, Some(per_second)))
            .asking(per_second, Metric::OfferedRate)
    };
    let curve = servers.iter().flat_map(|server| {
        RATES.map(|rate| paced(*server, format!("{}, {} k/s", server.name(), rate / 1000), SOCKETS, rate))
    });
    let mut sections = vec![section(
        "processor time against the rate",
        SOCKETS,
        Drawing::Curve { x: Metric::OfferedRate, y: Metric::ServerBusy },
        curve.collect(),
    )];
    for sockets in SOCKETS_COMPARED {
        let moderate =
            servers.iter().map(|server| paced(*server, server.name(), sockets, MODERATE)).collect();
        let full = servers
            .iter()
            .map(|&server| {
                server.row(server.name(), move |settings| measure(settings, server, sockets, None))
            })
            .collect();
        for (words, rows) in [("20,000 queries a second", moderate), ("as fast as answers come", full)] {
            let title = format!("{words}, {sockets} sockets");
            sections.push(
                section(title, sockets, Drawing::Bars(Metric::ServerCpu), rows)
                    .beside(&Server::Unbound("yes").name(), Metric::ServerCpu),
            );
        }
    }
    Ok(Plan { left_out, ..Plan::of(sections) })
}

fn section(title: impl Into<String>, sockets: usize, drawing: Drawing, rows: Vec<Row>) -> Section {
    let about = format!(
        "A query by UDP for one of 1,000 names, from {sockets} sockets. An answer after 500 ms is lost."
    );
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
    Section::new(title, about, &columns, drawing, rows).of("query")
}

fn measure(
    settings: &Settings,
    server: Server,
    sockets: usize,
    per_second: Option<f64>,
) -> anyhow::Result<Sample> {
    let started = match server {
        Server::Own(distribution) => examples::start(settings, "dns_cache", distribution, &[])?,
        Server::Unbound(so_reuseport) => unbound::start(settings, so_reuseport)?,
    };
    let (mut lost, mut offered) = (0.0, 0.0);
    let mut sample = started.measure(|server| {
        let asked = names::run(&Queries {
            server,
            threads: threads_beside(settings.workers),
            sockets,
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
