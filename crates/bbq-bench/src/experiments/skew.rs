//! A tenth of the connections brings nine tenths of the work: what do the others wait, with each steering of bbq-listen?

use std::path::Path;
use std::time::Duration;

use bbq_listen::STEERING_PINS_DEFAULT;

use crate::judged::{self, Noise, Verdict};
use crate::listen_server::ListenServer;
use crate::load::skewed::{self, Kind, Skewed};
use crate::meter::Meter;
use crate::metric::Metric;
use crate::plan::Plan;
use crate::results::{Results, SectionResults};
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::server::ServeOptions;
use crate::settings::Settings;
use crate::spread::Spread;

/// More workers than most machines of developers have processors: what waits for a worker must not wait for a processor.
const WORKERS: usize = 4;
/// A sample lasts for so many durations, so that heavy connections come and go.
const DURATIONS: u32 = 4;
/// What steering by load is held to, of what the hash needs.
const P99_MAX: f64 = 0.5;
const CPU_MAX: f64 = 1.05;
const HASH: &str = "reuseport, hash";
const LOAD: &str = "reuseport, load";
/// With programs of `bbq listen-setup`, where there are some.
const PINNED: &str = "reuseport, load, pinned";
/// A heavy connection has this times the work of a light one: nine tenths of all.
const TIMES: u32 = 81;

/// A server that is not told.
const NOWHERE: std::net::SocketAddrV4 = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0);

/// One request a connection, and a heavy one is 81 times the work.
fn single(word: &'static str, per_second: f64, unit: Duration) -> Skewed {
    let kind = |work| Kind { requests: 1, gap: Duration::ZERO, work };
    let (light, heavy) = (kind(unit), kind(unit * TIMES));
    Skewed { server: NOWHERE, per_second, duration: Duration::ZERO, word, light, heavy }
}

/// A connection stays open for half a second, and a heavy one asks 81 times as often.
fn lasting(word: &'static str, per_second: f64, unit: Duration) -> Skewed {
    const GAP: Duration = Duration::from_millis(250);
    let kind = |times| Kind { requests: 2 * times, gap: GAP / times, work: unit };
    let (light, heavy) = (kind(1), kind(TIMES));
    Skewed { server: NOWHERE, per_second, duration: Duration::ZERO, word, light, heavy }
}

fn cases() -> [(&'static str, Skewed); 4] {
    [
        ("a request a connection, work that waits", single("wait", 2_800.0, Duration::from_micros(100))),
        (
            "a request a connection, work on the processor",
            single("spend", 1_400.0, Duration::from_micros(80)),
        ),
        ("connections stay open, work that waits", lasting("wait", 80.0, Duration::from_micros(1_200))),
        ("connections stay open, work on the processor", lasting("spend", 80.0, Duration::from_micros(700))),
    ]
}

pub(crate) fn plan(_settings: &Settings) -> anyhow::Result<Plan> {
    let sections = cases().into_iter().map(|(title, load)| section(title, load)).collect();
    let verdicts = Box::new(|_: &Results<'_>, section: &SectionResults<'_>| verdicts(section));
    Ok(Plan { conclude: Some(Box::new(conclude)), verdicts, ..Plan::of(sections) })
}

fn section(title: &str, load: Skewed) -> Section {
    let row = |name: &str, distribution: &'static str, steering: &'static str, pins: &'static str| {
        Row::new(name, move |settings| measure(settings, load, (distribution, steering, pins)))
    };
    let none = "none";
    let mut rows = vec![row(HASH, "reuseport", "hash", none), row(LOAD, "reuseport", "load", none)];
    if Path::new(STEERING_PINS_DEFAULT).exists() {
        rows.push(row(PINNED, "reuseport", "load", STEERING_PINS_DEFAULT));
    }
    rows.push(row("shared", "shared", "hash", none));
    let about = format!(
        "{WORKERS} workers, {} new connections a second at random times, of which a tenth has 81 times the work of the others. From \
         when a request was due to its answer.",
        load.per_second
    );
    let columns = [
        Metric::LatencyP50,
        Metric::LatencyP99,
        Metric::LatencyMax,
        Metric::ServerCpu,
        Metric::Rate,
        Metric::ServerBusy,
        Metric::LargestShare,
        Metric::OthersBusy,
    ];
    Section::new(title, about, &columns, Drawing::Bars(Metric::LatencyP99), rows)
        .of("request")
        .beside(HASH, Metric::LatencyP99)
}

fn measure(
    settings: &Settings,
    load: Skewed,
    (distribution, steering, pins): (&str, &str, &str),
) -> anyhow::Result<Sample> {
    let options = ServeOptions {
        steering: steering.to_owned(),
        steering_pins: pins.into(),
        ..ServeOptions::new(WORKERS, distribution)
    };
    let server = ListenServer::start(settings, &options)?;
    let meter = Meter::start(Some(server.pid()))?;
    let load = Skewed { server: server.addresses()[0], duration: settings.duration * DURATIONS, ..load };
    let load = skewed::run(&load)?;
    let mut sample = meter.stop(&load)?;
    sample.set_shares(server.stop()?);
    Ok(sample)
}

fn conclude(results: &Results<'_>) -> Vec<String> {
    let titled = |section: &SectionResults<'_>| {
        let title = section.section.title.clone();
        verdicts(section).into_iter().map(move |verdict| format!("{title}: {verdict}"))
    };
    results.sections.iter().flat_map(titled).collect()
}

/// Whether steering by load is within its marks in a section.
fn verdicts(section: &SectionResults<'_>) -> Vec<String> {
    let verdict = |(row, (metric, what, most)): (&str, (Metric, &str, f64))| {
        let (row, hash) = (section.row(row)?, section.row(HASH)?);
        let ratios = judged::ratios(&row.values(metric), &hash.values(metric));
        let Spread { median, least, most: worst } = Spread::of(ratios.iter().copied().flatten())?;
        let verdict = Verdict::of(&ratios, most, Noise { of_row: row.is_noisy(), of_floor: hash.is_noisy() });
        let name = row.name;
        Some(format!(
            "{what} of {name} at most {most} times that of hash; measured {median:.2} ({least:.2}-{worst:.2}): {verdict}"
        ))
    };
    let marks =
        [(Metric::LatencyP99, "p99", P99_MAX), (Metric::ServerCpu, "processor time of a request", CPU_MAX)];
    let rows = [LOAD, PINNED].into_iter();
    rows.flat_map(|row| marks.map(|mark| (row, mark))).filter_map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_connections_brings_nine_tenths_of_the_work() {
        for (title, load) in cases() {
            let share = load.heavy_share();
            assert!((0.899..0.901).contains(&share), "{title}: {share}");
        }
    }
}
