//! The examples http_ok and dns_cache beside nginx and Unbound, under loads of other shapes than the usual one: few and many
//! threads, connections, and sockets.

use std::time::Duration;

use super::servers::{NGINX_FLOOR, beside_nginx, by_wrk, name_server, section};
use crate::peers::tools::Wrk;
use crate::peers::{self, examples, nginx};
use crate::plan::Plan;
use crate::settings::Settings;

/// Threads of the load, as of wrk's -t.
const THREADS: [usize; 3] = [1, 2, 4];
/// Connections of all threads, as of wrk's -c.
const CONNECTIONS: [usize; 3] = [16, 64, 512];
/// Sockets that queries come from, and what one may cost, times Unbound.
const SOCKETS: [usize; 3] = [8, 64, 512];
const QUERY_LIMIT: f64 = 0.55;
const EXAMPLE: &str = "http_ok";
/// What one is measured by for each shape.
const DISTRIBUTION: &str = "reuseport";
/// Whether a connection is closed after each request, in words; and what a request may cost, times nginx.
const CASES: [(&str, bool, f64); 2] =
    [("connections stay open", false, 0.8), ("a connection for each request", true, 0.85)];

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let can_run = peers::installed("wrk", &mut left_out) && examples::are_built(settings, &mut left_out);
    let beside = peers::installed("nginx", &mut left_out);
    let distributions = match &settings.distributions[..] {
        [] => vec![DISTRIBUTION.to_owned()],
        chosen => chosen.to_vec(),
    };
    // A short run is for a look.
    let is_look = settings.duration < Duration::from_secs(1);
    let chosen = |all: [usize; 3]| if is_look { all[1..2].to_vec() } else { all.to_vec() };
    let mut sections = Vec::new();
    for (words, close, limit) in CASES {
        for threads in chosen(THREADS) {
            for connections in chosen(CONNECTIONS) {
                let wrk = Wrk { threads, connections, close };
                let mut rows = Vec::new();
                if can_run {
                    let own = distributions.iter().map(|word| by_wrk(EXAMPLE, word.clone(), wrk));
                    rows.extend(own);
                    if beside {
                        let (name, mode) = nginx::MODES[0];
                        rows.push(beside_nginx(name, mode, false, wrk));
                    }
                }
                let s = if threads == 1 { "" } else { "s" };
                let title = format!("{words}: {threads} thread{s}, {connections} connections");
                let row = format!("{EXAMPLE} {}", distributions[0]);
                sections.push(section(&title, rows, limit, row, NGINX_FLOOR));
            }
        }
    }
    for sockets in chosen(SOCKETS) {
        sections.push(name_server(settings, sockets, QUERY_LIMIT, &distributions, &mut left_out));
    }
    left_out.sort();
    left_out.dedup();
    Ok(Plan { left_out, ..Plan::of(sections) })
}
