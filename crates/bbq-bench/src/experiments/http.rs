//! Seed 003: HTTP by the distributions that nginx has, and beside nginx.

use std::time::Duration;

use super::listen::{self, CONNECTIONS, Case, measure};
use crate::load::{http, threads_beside};
use crate::metric::Metric;
use crate::peers::{self, nginx};
use crate::plan::Plan;
use crate::sample::Sample;
use crate::section::{Row, Section};
use crate::settings::Settings;

const DISTRIBUTIONS: [&str; 3] = ["reuseport", "shared", "accept-mutex"];

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let beside_nginx = settings.peers && peers::installed("nginx", &mut left_out);
    let sections = CASES.map(|(title, close)| section(title, close, beside_nginx));
    Ok(Plan { left_out, ..Plan::of(sections.into()) })
}

/// Whether a connection is closed after each request, in words.
const CASES: [(&str, bool); 2] = [("connections stay open", false), ("a connection for each request", true)];

fn section(title: &'static str, close: bool, beside_nginx: bool) -> Section {
    let case = Case { title, addresses: 1, close, work: Duration::ZERO };
    let mut section =
        Section { baseline: Some((0, Metric::ServerCpu)), ..listen::section(case, &DISTRIBUTIONS) };
    section.rows = DISTRIBUTIONS
        .map(|distribution| {
            let name = format!("bbq-listen {distribution}");
            Row::new(name, move |settings| measure(settings, case, distribution))
        })
        .into();
    if beside_nginx {
        section.baseline = Some((section.rows.len(), Metric::ServerCpu));
        section.rows.extend(
            nginx::MODES
                .map(|(name, mode)| Row::other(name, move |settings| measure_nginx(settings, mode, close))),
        );
        section.about += " nginx without logs answers `return 200 \"OK\"`; it checks and dates what bbq-listen's bare server \
                          does not: `bbq bench servers` has the whole example beside it.";
    }
    section
}

fn measure_nginx(settings: &Settings, mode: nginx::Mode, close: bool) -> anyhow::Result<Sample> {
    nginx::start(settings, mode, None)?.measure(|server| {
        http::run(&http::Requests {
            servers: &[server],
            threads: threads_beside(settings.workers),
            connections: CONNECTIONS,
            close,
            duration: settings.duration,
        })
    })
}
