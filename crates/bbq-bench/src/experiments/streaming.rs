//! What several experiments do: streams of bbq clients into a bbq server.

use std::net::SocketAddrV4;
use std::time::Instant;

use bbq_wire::AckLevel;

use crate::directory;
use crate::load::session::Streams;
use crate::meter::Meter;
use crate::metric::Metric;
use crate::product::{Product, ProductOptions, Sinks, shares};
use crate::sample::Sample;
use crate::settings::Settings;

/// `bbq serve` under bbq clients, from the first batch until everything is in the files of its sinks.
///
/// The rate is that of acknowledgements; where there are none, that of delivery.
pub(super) fn stream_to_product(
    settings: &Settings,
    sinks: usize,
    streams: &dyn Fn(SocketAddrV4) -> Streams,
) -> anyhow::Result<Sample> {
    let directory = directory::make(&settings.directory)?;
    let sinks = Sinks::Files(sinks);
    let options = ProductOptions { listen: &["bbq+tcp://127.0.0.1:0"], sinks, configuration: "" };
    let mut product = Product::start(settings, directory.path(), &options)?;
    let streams = streams(product.addresses()[0]);
    let mut clients = streams.connect()?;
    let meter = Meter::start(Some(product.pid()))?;
    let began = Instant::now();
    let mut load = clients.run(settings.duration)?;
    let status = product.wait_delivered(load.operations, load.bytes + load.operations)?;
    if streams.level == AckLevel::None {
        load.took = began.elapsed();
    }
    let mut sample = meter.stop(&load)?;
    sample.set_shares(shares(&status, settings.workers));
    drop(clients);
    product.stop()?;
    Ok(sample)
}

/// Of most streams of messages.
pub(super) const STREAM_COLUMNS: [Metric; 8] = [
    Metric::Rate,
    Metric::Throughput,
    Metric::LatencyP50,
    Metric::LatencyP99,
    Metric::LatencyMax,
    Metric::ServerCpu,
    Metric::ClientCpu,
    Metric::OthersBusy,
];
