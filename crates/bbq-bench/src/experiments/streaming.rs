//! What several experiments do: streams of bbq clients into a bbq server.

use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use bbq_wire::AckLevel;

use crate::load::session::{Flow, Streams};
use crate::meter::Meter;
use crate::metric::Metric;
use crate::product::{Product, Sinks, shares};
use crate::sample::Sample;
use crate::settings::Settings;

/// `bbq serve` under bbq clients, from the first batch until everything is in the files of its sinks.
///
/// The rate is that of acknowledgements; where there are none, that of delivery. The processor time is that of delivery: what
/// the sinks had left when the last acknowledgement came is in it.
pub(super) fn stream_to_product(
    settings: &Settings,
    sinks: usize,
    duration: Duration,
    streams: &dyn Fn(SocketAddrV4) -> Streams,
) -> anyhow::Result<Sample> {
    let mut product = Product::start(settings, "bbq+tcp", Sinks::Files(sinks), "")?;
    let streams = streams(product.address());
    let mut clients = streams.connect()?;
    let meter = Meter::start(Some(product.pid()))?;
    let began = Instant::now();
    let mut load = clients.run(duration)?;
    let acknowledged = Instant::now();
    let status = product.wait_delivered(load.operations, load.bytes + load.operations)?;
    let behind = acknowledged.elapsed();
    if streams.level == AckLevel::None {
        load.took = began.elapsed();
    }
    let mut sample = meter.stop(&load)?;
    sample.set(Metric::SinksBehind, behind.as_secs_f64() * 1000.0);
    if let Flow::PerSecond(_) = streams.flow {
        sample.set(Metric::OfferedRate, load.operations as f64 / duration.as_secs_f64());
    }
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
