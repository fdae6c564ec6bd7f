//! What is measured: one file for each experiment.

pub(crate) mod burst;
pub(crate) mod client;
pub(crate) mod dns;
pub(crate) mod duplicate;
pub(crate) mod durable;
pub(crate) mod greeter;
pub(crate) mod http;
pub(crate) mod idle;
pub(crate) mod listen;
pub(crate) mod scale;
pub(crate) mod stall;
pub(crate) mod stream;
pub(crate) mod udp;

use std::time::Duration;

use crate::directory;
use crate::load::Load;
use crate::load::session::Streams;
use crate::meter::Meter;
use crate::metric::Metric;
use crate::sample::Sample;
use crate::settings::Settings;
use crate::under_test::{Product, ProductOptions, shares};

/// `bbq serve` under bbq clients, from the first batch until everything is in the files of its sinks.
///
/// The rate is that of acknowledgements; where there are none, that of delivery.
fn stream_to_product(
    settings: &Settings,
    sinks: usize,
    configuration: &str,
    streams: &dyn Fn(std::net::SocketAddrV4) -> Streams,
) -> anyhow::Result<Sample> {
    let directory = directory::make(&settings.directory)?;
    let options = ProductOptions { listen: &["bbq+tcp://127.0.0.1:0"], sinks, configuration };
    let mut product = Product::start(settings, directory.path(), &options)?;
    let streams = streams(product.addresses()[0]);
    let mut clients = streams.connect()?;
    let meter = Meter::start(Some(product.pid()))?;
    let began = std::time::Instant::now();
    let mut load = clients.run(settings.duration)?;
    let status = product.wait_delivered(load.operations, load.bytes + load.operations)?;
    if streams.level == bbq_wire::AckLevel::None {
        load.took = began.elapsed();
    }
    let mut sample = meter.stop(&load)?;
    sample.set_shares(shares(&status, settings.workers));
    drop(clients);
    product.stop()?;
    Ok(sample)
}

/// Those that waited for longer than anybody should: behind a blocked worker, or for the second try of a full accept queue.
fn late(load: &Load, sample: &mut Sample) {
    if let Some(latency) = &load.latency {
        sample.set(Metric::Late, latency.percent_over(LATE));
    }
}

const LATE: Duration = Duration::from_millis(100);

/// Of most streams of messages.
const STREAM_COLUMNS: [Metric; 8] = [
    Metric::Rate,
    Metric::Throughput,
    Metric::LatencyP50,
    Metric::LatencyP99,
    Metric::LatencyMax,
    Metric::ServerCpu,
    Metric::ClientCpu,
    Metric::OthersBusy,
];
