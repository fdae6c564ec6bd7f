//! Lines over plain TCP, beside the servers that take them.

use super::pipeline;
use crate::experiments::to_file::ToFile;
use crate::load::lines;
use crate::metric::Metric;
use crate::peers;
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::settings::Settings;

const LINE_BYTES: usize = 256;
const CONNECTIONS: usize = 4;

pub(super) fn section(settings: &Settings, left_out: &mut Vec<String>) -> Section {
    let section = pipeline::section(
        "lines of 256 B over 4 TCP connections, to a file",
        "Nothing is acknowledged; the rate is that of delivery. bbq spools and syncs every 10 ms; the others keep no message over \
         a crash. All slow the senders down rather than drop.",
        Drawing::Bars(Metric::ServerCpu),
        rows(settings, left_out),
    );
    Section { baseline: Some((0, Metric::ServerCpu)), ..section }.of("line")
}

fn rows(settings: &Settings, left_out: &mut Vec<String>) -> Vec<Row> {
    let peers = peers::available(settings, &peers::LINE_SERVERS, left_out);
    let peers = peers.into_iter().map(|(name, start)| (name, Some(start)));
    let servers = [("bbq lines+tcp", None)].into_iter().chain(peers);
    let row = |(name, peer): (&'static str, Option<peers::Start>)| Row {
        is_ours: peer.is_none(),
        ..Row::new(name, move |settings| measure(settings, peer))
    };
    servers.map(row).collect()
}

fn measure(settings: &Settings, peer: Option<peers::Start>) -> anyhow::Result<Sample> {
    let server = ToFile::start(settings, "lines+tcp", peer)?;
    let (mut sample, ..) = server.measure(LINE_BYTES as u64, |server| lines::run(&load(settings, server)))?;
    if let Some(rate) = sample.value(Metric::DeliveredRate) {
        sample.set(Metric::Rate, rate);
        sample.set(Metric::Throughput, rate * LINE_BYTES as f64 / 1e6);
    }
    Ok(sample)
}

fn load(settings: &Settings, server: std::net::SocketAddrV4) -> lines::Lines {
    lines::Lines { server, connections: CONNECTIONS, line_bytes: LINE_BYTES, duration: settings.duration }
}
