//! What a message costs, and how long a start takes, with so much in the spool already.

use std::time::{Duration, Instant};

use anyhow::Context;
use bbq_wire::AckLevel;

use super::messages::{MESSAGE_BYTES, RECORDS, WINDOW};
use crate::load::session::{Flow, Streams};
use crate::load::threads_beside;
use crate::meter::Meter;
use crate::metric::Metric;
use crate::product::{Product, Sinks};
use crate::sample::Sample;
use crate::section::Row;
use crate::settings::Settings;

/// Messages that wait, in MB.
const SPOOL_MB: [u64; 4] = [0, 40, 400, 4_000];
/// Beside what is measured, so much of it is left free.
const FREE_TIMES: u64 = 2;
/// To fill a spool, larger batches do, a while at a time.
const FILLING_RECORDS: u32 = 1_000;
const FILLING: Duration = Duration::from_millis(200);

pub(super) fn rows(settings: &Settings, short: bool, left_out: &mut Vec<String>) -> anyhow::Result<Vec<Row>> {
    let disk = rustix::fs::statvfs(&settings.directory).context("statvfs of --data")?;
    let free_mb = disk.f_bavail * disk.f_frsize / 1_000_000;
    let fits = |megabytes: &u64| megabytes * FREE_TIMES < free_mb && (!short || *megabytes < 100);
    let (fit, others): (Vec<u64>, Vec<u64>) = SPOOL_MB.iter().partition(|megabytes| fits(megabytes));
    if !others.is_empty() {
        left_out.push(format!(
            "{others:?} MB in the spool: {free_mb} MB are free, and a --duration under 1 s is too short for much"
        ));
    }
    let row = |megabytes: u64| {
        Row::new(format!("bbq, {megabytes} MB"), move |settings| measure(settings, megabytes))
    };
    Ok(fit.into_iter().map(row).collect())
}

fn measure(settings: &Settings, megabytes: u64) -> anyhow::Result<Sample> {
    let product = start_stuck(settings)?;
    let streams = |records| Streams {
        server: product.address(),
        threads: threads_beside(settings.workers),
        connections: 100,
        level: AckLevel::Durable,
        message_bytes: MESSAGE_BYTES,
        records,
        flow: Flow::Window(WINDOW / 100),
    };
    let mut filled = 0;
    while filled < megabytes * 1_000_000 {
        filled += streams(FILLING_RECORDS).connect()?.run(FILLING)?.bytes;
    }
    let mut clients = streams(RECORDS).connect()?;
    let meter = Meter::start(Some(product.pid()))?;
    let load = clients.run(settings.duration)?;
    let mut sample = meter.stop(&load)?;
    drop(clients);
    product.kill();
    let began = Instant::now();
    let again = start_stuck(settings)?;
    sample.set(Metric::Start, began.elapsed().as_secs_f64() * 1000.0);
    again.kill();
    Ok(sample)
}

fn start_stuck(settings: &Settings) -> anyhow::Result<Product> {
    Product::start(settings, "bbq+tcp", Sinks::Stuck, "")
}
