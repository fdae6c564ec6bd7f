//! Seed 003's weakness: one worker does not come around for a second while new connections come. How long do they wait?
//!
//! A worker stalls in three ways. It is blocked while it is awake, in the middle of a request; the system freezes it while it sleeps
//! in its wait for events; or a thread of a higher priority has its processor.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;

use anyhow::Context;

use crate::listen_server::ListenServer;
use crate::load::paced::{self, Arrivals, Question};
use crate::load::source::Sources;
use crate::load::{Load, http, names};
use crate::meter::Meter;
use crate::metric::Metric;
use crate::peers::{self, examples, nginx};
use crate::plan::Plan;
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::server::ServeOptions;
use crate::settings::Settings;
use crate::stalled::{Awake, Frozen, STALL, STARVED, Starved, Victim};

/// Whoever stalls, most of the server goes on.
const WORKERS_MIN: usize = 4;
/// New ones all through the stall, each from a port of its own.
const CONNECTIONS: usize = 400;
const DISTRIBUTIONS: [&str; 5] = ["reuseport", "shared", "accept-mutex", "handoff", "duplicate=2"];
const DATAGRAM_DISTRIBUTIONS: [&str; 2] = ["reuseport", "shared"];
const NGINX: [(&str, &str); 2] = [("nginx reuseport", "reuseport"), ("nginx shared", "")];
const COLUMNS: [Metric; 7] = [
    Metric::LatencyP50,
    Metric::LatencyP99,
    Metric::LatencyMax,
    Metric::Over20,
    Metric::Over50,
    Metric::Late,
    Metric::OthersBusy,
];

/// How the worker stalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Awake,
    Frozen,
    Starved,
}

/// Who is measured.
#[derive(Debug, Clone, Copy)]
enum Server {
    Ours { distribution: &'static str, rescue: bool },
    OursDatagrams { distribution: &'static str },
    Nginx { listen: &'static str },
}

impl Server {
    /// Not bbq-listen with its help switched off: that shows what the help is worth, and nobody gets it.
    fn is_ours(self) -> bool {
        match self {
            Server::Ours { rescue, .. } => rescue,
            Server::OursDatagrams { .. } => true,
            Server::Nginx { .. } => false,
        }
    }
}

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = vec!["--duration: a sample lasts as long as the stall, a second".to_owned()];
    let strace = peers::installed("strace", &mut left_out);
    let starves = Starved::can(&mut left_out);
    let datagrams = examples::are_built(settings, &mut left_out);
    let nginx = settings.peers && peers::installed("nginx", &mut left_out);
    let servers = |kind| {
        let mut servers = Vec::new();
        let ours = |distribution, rescue| Server::Ours { distribution, rescue };
        servers.extend(DISTRIBUTIONS.map(|word| (format!("bbq-listen {word}"), ours(word, true))));
        servers.insert(1, ("bbq-listen reuseport, nobody helps".to_owned(), ours("reuseport", false)));
        if datagrams {
            let udp = |distribution| (format!("udp {distribution}"), Server::OursDatagrams { distribution });
            servers.extend(DATAGRAM_DISTRIBUTIONS.map(udp));
        }
        if nginx && (strace || kind == Kind::Starved) {
            servers.extend(NGINX.map(|(name, listen)| (name.to_owned(), Server::Nginx { listen })));
        }
        servers
    };
    let section = |kind, title: &str, about: &str| {
        let workers = workers(settings);
        let rows = servers(kind)
            .into_iter()
            .map(|(name, server)| Row {
                is_ours: server.is_ours(),
                ..Row::new(name, move |settings| measure(settings, kind, server))
            })
            .collect();
        let stall = if kind == Kind::Starved { STARVED } else { STALL };
        let title = format!("{title}: one of {workers} workers, for {} s", stall.as_secs_f64());
        let about = format!(
            "{CONNECTIONS} new connections in a second, each with a request: from when a connection was due to its answer. {about}"
        );
        Section::new(title, about, &COLUMNS, Drawing::Bars(Metric::LatencyMax), rows).of("new connection")
    };
    let mut sections = vec![section(
        Kind::Awake,
        "blocked awake",
        "A request blocks its worker's thread; of nginx, strace holds a worker where it has read a request. Whoever sent that one is \
         not counted. udp: the example dns_cache.",
    )];
    if strace {
        sections.push(section(
            Kind::Frozen,
            "frozen asleep",
            "strace holds a worker where its wait for events returns: a thread of bbq-listen, a process of nginx. udp: the example \
             dns_cache.",
        ));
    }
    if starves {
        sections.push(section(
            Kind::Starved,
            "starved",
            "A worker shares a processor with a busy thread of SCHED_FIFO; everything else is kept off that processor.",
        ));
    }
    left_out.sort();
    left_out.dedup();
    Ok(Plan { left_out, ..Plan::of(sections) })
}

fn workers(settings: &Settings) -> usize {
    settings.workers.max(WORKERS_MIN)
}

fn measure(settings: &Settings, kind: Kind, server: Server) -> anyhow::Result<Sample> {
    let settings = &Settings { workers: workers(settings), ..settings.clone() };
    match server {
        Server::Ours { distribution, rescue } => {
            let options = ServeOptions { rescue, ..ServeOptions::new(settings.workers, distribution) };
            let server = ListenServer::start(settings, &options)?;
            let victim = Victim::thread(server.pid(), "worker-1")?;
            let address = server.addresses()[0];
            let meter = Meter::start(Some(server.pid()))?;
            let load = if kind == Kind::Awake {
                let blocking = OwnedFd::from(Sources::new()?.connect(address)?);
                let request = format!("GET /block/{} HTTP/1.1\r\nHost: bench\r\n\r\n", STALL.as_millis());
                http::ask(&blocking, request.as_bytes())?;
                load(address, Question::Http)?
            } else {
                while_stalled(settings, kind, &[victim], address, Question::Http)?
            };
            let sample = meter.stop(&load)?;
            server.stop()?;
            Ok(sample)
        }
        Server::OursDatagrams { distribution } => {
            let server = examples::start(settings, "dns_cache", distribution, &["--allow-block"])?;
            let victim = Victim::thread(server.pid(), "worker-1")?;
            server.measure(|address| {
                if kind == Kind::Awake {
                    let blocking = OwnedFd::from(Sources::new()?.datagrams_to(address)?);
                    let query = names::query(&format!("block-{}.bench.example", STALL.as_millis()));
                    http::ask(&blocking, &query)?;
                    return load(address, Question::Dns);
                }
                while_stalled(settings, kind, &[victim], address, Question::Dns)
            })
        }
        Server::Nginx { listen } => {
            let mode = nginx::Mode { listen, events: "accept_mutex off;" };
            let server = nginx::start(settings, mode, None)?;
            let victims = Victim::children(server.pid());
            server.measure(|address| while_stalled(settings, kind, &victims, address, Question::Http))
        }
    }
}

/// Loads a server while its worker stalls.
fn while_stalled(
    settings: &Settings,
    kind: Kind,
    victims: &[Victim],
    address: SocketAddrV4,
    question: Question,
) -> anyhow::Result<Load> {
    let victim = victims.first().context("the server has no worker")?;
    match kind {
        Kind::Awake => {
            let _stalled = Awake::start(settings, victims, address)?;
            load(address, question)
        }
        Kind::Frozen => {
            let _stalled = Frozen::start(settings, victim)?;
            load(address, question)
        }
        Kind::Starved => {
            let _stalled = Starved::start(settings, victim)?;
            load(address, question)
        }
    }
}

fn load(server: SocketAddrV4, question: Question) -> anyhow::Result<Load> {
    paced::run(&Arrivals { server, question, per_second: CONNECTIONS as f64, count: CONNECTIONS })
}
