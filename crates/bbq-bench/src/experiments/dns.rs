//! Seed 001: DNS answered from memory, processor time against the rate, beside Unbound with and without so-reuseport.

use std::time::Duration;

use crate::directory;
use crate::listen_server::ListenServer;
use crate::load::names::{self, Queries};
use crate::load::threads_beside;
use crate::meter::Meter;
use crate::metric::Metric;
use crate::peers::{self, unbound};
use crate::plan::Plan;
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::server::{ServeOptions, Service};
use crate::settings::Settings;

/// Queries a second.
const RATES: [u32; 4] = [10_000, 20_000, 40_000, 80_000];
const SOCKETS: usize = 64;

/// Who answers.
#[derive(Debug, Clone, Copy)]
enum Server {
    /// bbq-listen, by this distribution.
    Own(&'static str),
    /// Unbound, with so-reuseport yes or no.
    Unbound(&'static str),
}

impl Server {
    fn name(self) -> String {
        match self {
            Server::Own(distribution) => format!("bbq-listen {distribution}"),
            Server::Unbound(so_reuseport) => format!("Unbound so-reuseport {so_reuseport}"),
        }
    }
}

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let mut servers = vec![Server::Own("reuseport"), Server::Own("shared")];
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
    let about = "A query by UDP for one of 1,000 names, from 64 sockets. An answer after 500 ms is lost. bbq-listen's bare server \
                 checks less than Unbound does.";
    let section = |title: &str, drawing, rows| Section {
        title: title.to_owned(),
        about: about.to_owned(),
        columns: vec![
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
        ],
        baseline: None,
        drawing,
        rows,
    };
    let baseline = servers.iter().position(|server| matches!(server, Server::Unbound("yes"))).unwrap_or(0);
    let sections = vec![
        section(
            "processor time against the rate",
            Drawing::Curve { x: Metric::OfferedRate, y: Metric::ServerBusy },
            paced.collect(),
        ),
        Section {
            baseline: Some((baseline, Metric::ServerCpu)),
            ..section("as fast as answers come", Drawing::Bars(Metric::ServerCpu), full.collect())
        },
    ];
    Ok(Plan { left_out, ..Plan::of(sections) })
}

fn measure(settings: &Settings, server: Server, per_second: Option<f64>) -> anyhow::Result<Sample> {
    let directory = directory::make(&settings.directory)?;
    let queries = |server| Queries {
        server,
        threads: threads_beside(settings.workers),
        sockets: SOCKETS,
        per_second,
        duration: settings.duration,
    };
    match server {
        Server::Own(distribution) => {
            let server = ListenServer::start(
                settings,
                &ServeOptions {
                    service: Service::Names,
                    listen: vec!["udp://127.0.0.1:0".to_owned()],
                    workers: settings.workers,
                    distribution: distribution.to_owned(),
                    work: Duration::ZERO,
                    rescue: true,
                    logs: directory.path().to_owned(),
                },
            )?;
            let mut sample = ask(server.pid(), &queries(server.addresses()[0]))?;
            sample.set_shares(server.stop()?.operations);
            Ok(sample)
        }
        Server::Unbound(so_reuseport) => {
            let server = unbound::start(settings, directory.path(), so_reuseport)?;
            let sample = ask(server.pid(), &queries(server.address()))?;
            server.stop()?;
            Ok(sample)
        }
    }
}

fn ask(pid: u32, queries: &Queries) -> anyhow::Result<Sample> {
    let meter = Meter::start(Some(pid))?;
    let asked = names::run(queries)?;
    let mut sample = meter.stop(&asked.load)?;
    let lost = asked.asked.saturating_sub(asked.load.operations);
    sample.set(Metric::Loss, lost as f64 * 100.0 / asked.asked as f64);
    sample.set(Metric::OfferedRate, asked.asked as f64 / asked.load.took.as_secs_f64());
    Ok(sample)
}
