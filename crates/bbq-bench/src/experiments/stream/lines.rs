//! Lines over plain TCP, beside the servers that take them.

use super::pipeline;
use crate::directory;
use crate::load::lines;
use crate::meter::Meter;
use crate::metric::Metric;
use crate::peers::{self, Peer};
use crate::product::{Product, ProductOptions, Sinks};
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
    Section { baseline: Some((0, Metric::ServerCpu)), ..section }
}

fn rows(settings: &Settings, left_out: &mut Vec<String>) -> Vec<Row> {
    let mut rows = vec![Row::new("bbq lines+tcp", to_product)];
    for (name, start) in peers::available(settings, &peers::LINE_SERVERS, left_out) {
        rows.push(Row::new(name, move |settings| to_peer(settings, start)));
    }
    rows
}

fn to_product(settings: &Settings) -> anyhow::Result<Sample> {
    let directory = directory::make(&settings.directory)?;
    let options =
        ProductOptions { listen: &["lines+tcp://127.0.0.1:0"], sinks: Sinks::Files(1), configuration: "" };
    let mut product = Product::start(settings, directory.path(), &options)?;
    let meter = Meter::start(Some(product.pid()))?;
    let began = std::time::Instant::now();
    let mut load = lines::run(&load(settings, product.addresses()[0]))?;
    product.wait_delivered(load.operations, load.bytes)?;
    load.took = began.elapsed();
    let sample = meter.stop(&load)?;
    product.stop()?;
    Ok(sample)
}

fn to_peer(settings: &Settings, start: peers::Start) -> anyhow::Result<Sample> {
    let directory = directory::make(&settings.directory)?;
    let mut peer: Peer = start(settings, directory.path())?;
    let meter = Meter::start(Some(peer.pid()))?;
    let began = std::time::Instant::now();
    let mut load = lines::run(&load(settings, peer.address()))?;
    peer.wait_written(load.bytes)?;
    load.took = began.elapsed();
    let sample = meter.stop(&load)?;
    peer.stop()?;
    Ok(sample)
}

fn load(settings: &Settings, server: std::net::SocketAddrV4) -> lines::Lines {
    lines::Lines { server, connections: CONNECTIONS, line_bytes: LINE_BYTES, duration: settings.duration }
}
