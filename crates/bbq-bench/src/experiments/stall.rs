//! Seed 003's weakness: one worker is blocked for a second while new connections come. How long do they wait?

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::listen_server::ListenServer;
use crate::load::http;
use crate::load::paced::{self, Arrivals};
use crate::load::source::Sources;
use crate::meter::Meter;
use crate::metric::Metric;
use crate::pause;
use crate::peers::{self, nginx};
use crate::plan::Plan;
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::server::ServeOptions;
use crate::settings::Settings;

/// As in the measurement that the figures of nginx are from: 200 connections, 500 a second.
const PER_SECOND: f64 = 500.0;
const CONNECTIONS: usize = 200;
const BLOCKED_MS: u64 = 1000;

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out =
        vec!["--duration: a sample lasts as long as the worker is blocked, a second".to_owned()];
    let row = |name: &str, distribution: &'static str, rescue| {
        Row::new(name, move |settings| measure(settings, distribution, rescue))
    };
    let mut rows = vec![
        row("reuseport, as bbq runs it", "reuseport", true),
        row("reuseport, nobody helps", "reuseport", false),
        row("shared", "shared", true),
        row("accept-mutex", "accept-mutex", true),
        row("handoff", "handoff", true),
        row("duplicate=2", "duplicate=2", true),
    ];
    if settings.peers && peers::installed("nginx", &mut left_out) {
        for (name, mode) in
            [("nginx reuseport, a worker stopped", "reuseport"), ("nginx shared, a worker stopped", "")]
        {
            rows.push(Row::new(name, move |settings| measure_nginx(settings, mode)));
        }
    }
    let section = Section::new(
        format!(
            "one of {} workers is blocked for 1 s, 500 new connections a second",
            settings.workers.max(2)
        ),
        "From when a connection was due to its answer. A request blocks its worker's thread; of nginx a worker gets SIGSTOP.",
        &[Metric::LatencyP50, Metric::LatencyP99, Metric::LatencyMax, Metric::Late, Metric::OthersBusy],
        Drawing::Bars(Metric::LatencyMax),
        rows,
    );
    Ok(Plan { left_out, ..Plan::of(vec![section]) })
}

fn measure(settings: &Settings, distribution: &str, rescue: bool) -> anyhow::Result<Sample> {
    let options = ServeOptions {
        workers: settings.workers.max(2),
        rescue,
        ..ServeOptions::new(settings.workers, distribution)
    };
    let server = ListenServer::start(settings, &options)?;
    let address = server.addresses()[0];
    let meter = Meter::start(Some(server.pid()))?;
    let blocking = OwnedFd::from(Sources::new()?.connect(address)?);
    http::ask(&blocking, format!("GET /block/{BLOCKED_MS} HTTP/1.1\r\nHost: bench\r\n\r\n").as_bytes())?;
    let load = paced::run(&Arrivals { server: address, per_second: PER_SECOND, count: CONNECTIONS })?;
    let sample = meter.stop(&load)?;
    drop(blocking);
    server.stop()?;
    Ok(sample)
}

fn measure_nginx(settings: &Settings, mode: &'static str) -> anyhow::Result<Sample> {
    let settings = Settings { workers: settings.workers.max(2), ..settings.clone() };
    let server = nginx::start(&settings, nginx::Mode { listen: mode, events: "accept_mutex off;" }, None)?;
    let stopped = server.stop_one_worker()?;
    let going_on = Instant::now() + Duration::from_millis(BLOCKED_MS);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pause::until(going_on);
            drop(stopped);
        });
        server.measure(|server| paced::run(&Arrivals { server, per_second: PER_SECOND, count: CONNECTIONS }))
    })
}
