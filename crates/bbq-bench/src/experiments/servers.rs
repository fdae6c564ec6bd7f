//! The examples of bbq-listen beside nginx and Unbound: what a request costs each, under wrk and dnsperf.

use std::net::SocketAddrV4;

use crate::load::Load;
use crate::load::names::NAMES;
use crate::metric::Metric;
use crate::peers::tools::{self, CONNECTIONS, Wrk};
use crate::peers::{self, Peer, examples, nginx, unbound};
use crate::plan::Plan;
use crate::section::{Drawing, Mark, Row, Section};
use crate::settings::Settings;

const DISTRIBUTIONS: [&str; 2] = ["reuseport", "shared"];
const PROXY: &str = "stream_proxy";
pub(super) const NGINX_FLOOR: &str = nginx::MODES[0].0;
const UNBOUND_FLOOR: &str = "unbound so-reuseport yes";
const COLUMNS: [Metric; 5] =
    [Metric::ServerCpu, Metric::Rate, Metric::ClientCpu, Metric::LargestShare, Metric::OthersBusy];

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let distributions = match &settings.distributions[..] {
        [] => DISTRIBUTIONS.map(str::to_owned).into(),
        chosen => chosen.to_vec(),
    };
    let ours = |example| distributions.iter().map(|word| (example, word.clone())).collect::<Vec<_>>();
    let (kept, closed) = (Wrk::USUAL, Wrk { close: true, ..Wrk::USUAL });
    let web = |title: &str, example, limit, wrk: Wrk, left_out: &mut Vec<String>| {
        let mut rows = Vec::new();
        if peers::installed("wrk", left_out) {
            let are_built = examples::are_built(settings, left_out);
            if are_built {
                rows.extend(ours(example).into_iter().map(|(example, word)| by_wrk(example, word, wrk)));
            }
            // What is carried on goes to an example, behind nginx, too.
            let can_carry_on =
                |left_out: &mut _| example != PROXY || (are_built && nginx::can_carry_on(left_out));
            if peers::installed("nginx", left_out) && can_carry_on(left_out) {
                rows.extend(nginx::MODES.map(|(name, mode)| beside_nginx(name, mode, example == PROXY, wrk)));
            }
        }
        section(title, rows, limit, format!("{example} {}", distributions[0]), NGINX_FLOOR)
    };
    let sections = vec![
        web("http: 64 connections that stay open, OK", "http_ok", 0.8, kept, &mut left_out),
        web("churn: a connection for each request, OK", "http_ok", 1.0, closed, &mut left_out),
        web("proxy: 64 connections that stay open, carried on to http_ok", PROXY, 0.8, kept, &mut left_out),
        name_server(settings, CONNECTIONS, 0.6, &distributions, &mut left_out),
    ];
    left_out.sort();
    left_out.dedup();
    Ok(Plan { left_out, ..Plan::of(sections) })
}

/// The example dns_cache beside Unbound, under dnsperf with so many sockets.
pub(super) fn name_server(
    settings: &Settings,
    sockets: usize,
    limit: f64,
    distributions: &[String],
    left_out: &mut Vec<String>,
) -> Section {
    let load = move |settings: &Settings, server| tools::dnsperf(settings, server, sockets);
    let mut rows = Vec::new();
    if peers::installed("dnsperf", left_out) {
        if examples::are_built(settings, left_out) {
            rows.extend(distributions.iter().map(|word| own("dns_cache", word.clone(), load)));
        }
        if peers::installed("unbound", left_out) {
            rows.extend(["yes", "no"].map(|so_reuseport| {
                Row::other(format!("unbound so-reuseport {so_reuseport}"), move |settings| {
                    unbound::start(settings, so_reuseport)?.measure(|server| load(settings, server))
                })
            }));
        }
    }
    let title = format!("dns: UDP, {NAMES} names, {sockets} sockets");
    section(&title, rows, limit, format!("dns_cache {}", distributions[0]), UNBOUND_FLOOR).of("query")
}

pub(super) fn section(title: &str, rows: Vec<Row>, limit: f64, row: String, floor: &str) -> Section {
    let about = "All are set up for the least they can do: no log, nothing looked up, answers from memory. An answer that is not OK \
                 fails the sample.";
    let mark = Mark { row, limit, floor: Some(floor.to_owned()), beside: Vec::new() };
    let section = Section::new(title, about, &COLUMNS, Drawing::Bars(Metric::ServerCpu), rows);
    Section { marks: vec![mark], ..section }.of("request").beside(floor, Metric::ServerCpu)
}

/// An example by a distribution, under wrk.
pub(super) fn by_wrk(example: &'static str, distribution: String, wrk: Wrk) -> Row {
    own(example, distribution, move |settings, server| wrk.run(settings, server))
}

/// An example by a distribution, under a load.
fn own(
    example: &'static str,
    distribution: String,
    run: impl Fn(&Settings, SocketAddrV4) -> anyhow::Result<Load> + 'static,
) -> Row {
    Row::new(format!("{example} {distribution}"), move |settings| {
        let upstream = upstream(settings, example == PROXY)?;
        let to = upstream.as_ref().map(|upstream| upstream.address().to_string());
        let to: Vec<&str> = to.iter().flat_map(|address| ["--upstream", address]).collect();
        examples::start(settings, example, &distribution, &to)?.measure(|server| run(settings, server))
    })
}

pub(super) fn beside_nginx(name: &'static str, mode: nginx::Mode, carries_on: bool, wrk: Wrk) -> Row {
    Row::other(name, move |settings| {
        let upstream = upstream(settings, carries_on)?;
        let to = upstream.as_ref().map(Peer::address);
        nginx::start(settings, mode, to)?.measure(|server| wrk.run(settings, server))
    })
}

/// The server behind a proxy; its processor time is not the proxy's.
fn upstream(settings: &Settings, wanted: bool) -> anyhow::Result<Option<Peer>> {
    if wanted { examples::start(settings, "http_ok", "reuseport", &[]).map(Some) } else { Ok(None) }
}
