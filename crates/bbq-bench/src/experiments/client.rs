//! What a call of `send` costs the application that makes it, whatever its server does, beside a copy of the message and
//! beside what else an application might call.
//!
//! The clock is read around each call, in every row alike: the first row shows what that costs.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use anyhow::Context;
use bbq_client::{OnFull, Sender};

use crate::address;
use crate::cpu;
use crate::interrupt;
use crate::load::threads::{self, Done};
use crate::meter::Meter;
use crate::metric::Metric;
use crate::peers::send_cost;
use crate::plan::Plan;
use crate::process::Stopped;
use crate::product::{Product, Sinks};
use crate::results::Results;
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::settings::Settings;

const MESSAGE: [u8; 100] = [b'm'; 100];
/// Of the ring that the first row copies into: stays in a core's caches, as a queue's block does.
const RING_BYTES: usize = 1024 * 1024;
/// Calls between two looks at the clock for the end.
const CALLS_PER_LOOK: u32 = 1024;
/// Full within a second at any rate that makes a difference.
const FULL_SPOOL: &str = "[spool]\nbytes_max = \"64MiB\"\nsegment_bytes = \"8MiB\"\n";
/// The default.
const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
const COLUMNS: [Metric; 9] = [
    Metric::Rate,
    Metric::LatencyP50,
    Metric::LatencyP99,
    Metric::LatencyP999,
    Metric::LatencyMax,
    Metric::Sleeps,
    Metric::QueueOfBound,
    Metric::Dropped,
    Metric::OthersBusy,
];

/// What the server does.
#[derive(Clone, Copy)]
enum State {
    KeepsUp,
    Stopped,
    Full,
    Gone,
    Unresolvable,
}

/// Rows, behind the first one.
const STATES: [(&str, State); 5] = [
    ("the server keeps up", State::KeepsUp),
    ("the server is stopped (SIGSTOP)", State::Stopped),
    ("the server's spool is full", State::Full),
    ("no server", State::Gone),
    ("the name does not resolve", State::Unresolvable),
];

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let mut rows = vec![Row::other("a copy into a ring of 1 MiB", copy_alone)];
    rows.extend(
        STATES.map(|(name, state)| Row::new(format!("send, {name}"), move |settings| bbq(settings, state))),
    );
    rows.push(Row::other("send(2) on a unix datagram socket, as syslog(3)", datagrams));
    for library in send_cost::available(settings, &mut left_out) {
        rows.push(Row::other(library.name(), move |settings| library.measure(settings)));
    }
    let section = Section::new(
        "one call in the application's thread, 100 B",
        "The clock is read around each call. send copies and returns, and acknowledgements mean that a message is on disk; \
                a record that finds no room is dropped and counted (on_full = drop-newest). Sleeps are voluntary context switches \
                of the calling thread: a call that took long without one was interrupted by the scheduler.",
        &COLUMNS,
        Drawing::Bars(Metric::LatencyP999),
        rows,
    )
    .of("call");
    let section = Section { baseline: Some((0, Metric::LatencyP50)), ..section };
    Ok(Plan { left_out, conclude: Some(Box::new(conclude)), ..Plan::of(vec![section]) })
}

fn copy_alone(settings: &Settings) -> anyhow::Result<Sample> {
    let mut ring = vec![0; RING_BYTES];
    let mut at = 0;
    measure(settings, None, || {
        ring[at..at + MESSAGE.len()].copy_from_slice(std::hint::black_box(&MESSAGE));
        at = if at + 2 * MESSAGE.len() > RING_BYTES { 0 } else { at + MESSAGE.len() };
    })
}

fn bbq(settings: &Settings, state: State) -> anyhow::Result<Sample> {
    let product = |configuration, sinks| Product::start(settings, "bbq+tcp", sinks, configuration);
    let server = match state {
        State::KeepsUp | State::Stopped => Some(product("", Sinks::Files(1))?),
        State::Full => Some(product(FULL_SPOOL, Sinks::Stuck)?),
        State::Gone | State::Unresolvable => None,
    };
    let address = match (&server, state) {
        (Some(server), _) => server.address().to_string(),
        (None, State::Unresolvable) => "name.invalid:7700".to_owned(),
        (None, _) => address::free()?.to_string(),
    };
    let sender = Sender::builder()
        .server(address.parse()?)
        .on_full(OnFull::DropNewest)
        .queue_bytes_max(QUEUE_BYTES_MAX)
        .close_timeout(Duration::ZERO)
        .start()?;
    if server.is_some() {
        sender.send(&MESSAGE)?;
        sender.flush(ANSWER_WITHIN).context("the server does not answer")?;
    }
    let stopped = match (&server, state) {
        (Some(server), State::Stopped) => Some(Stopped::new(server.pid())?),
        _ => None,
    };
    let before = sender.counters();
    let mut sample = measure(settings, server.as_ref().map(Product::pid), || {
        // That a record is dropped is an outcome here.
        let _outcome = sender.send(std::hint::black_box(&MESSAGE));
    })?;
    let after = sender.counters();
    sample.set(Metric::QueueOfBound, after.queued_bytes as f64 * 100.0 / QUEUE_BYTES_MAX as f64);
    let (dropped, accepted) = (after.dropped.full - before.dropped.full, after.accepted - before.accepted);
    sample.set(Metric::Dropped, dropped as f64 * 100.0 / (dropped + accepted) as f64);
    drop(stopped);
    drop(sender);
    // What a stopped or full server still has is of no interest.
    drop(server);
    Ok(sample)
}

/// As syslog(3) does, to somebody who reads.
fn datagrams(settings: &Settings) -> anyhow::Result<Sample> {
    let (ours, theirs) = UnixDatagram::pair().context("socketpair")?;
    let reading = std::thread::Builder::new().name("reader".to_owned()).spawn(move || {
        let mut buffer = [0; 256];
        // Until the other end is closed: an empty datagram, or an error.
        while theirs.recv(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
    })?;
    let mut failed = None;
    let sample = measure(settings, None, || {
        if let Err(error) = ours.send(std::hint::black_box(&MESSAGE)) {
            failed = Some(error);
        }
    });
    ours.send(&[]).context("send")?;
    drop(ours);
    reading.join().map_err(|_| anyhow::anyhow!("the reader panicked"))?;
    failed.map_or(Ok(()), Err).context("send")?;
    sample
}

/// Calls until the time is over, with the clock read around each call.
fn measure(
    settings: &Settings,
    server: Option<u32>,
    mut call: impl FnMut() + Send,
) -> anyhow::Result<Sample> {
    let meter = Meter::start(server)?;
    let mut slept = 0;
    let load = threads::run([|| {
        let mut done = Done::nothing()?;
        let before = cpu::sleeps_of_this_thread()?;
        let end = Instant::now() + settings.duration;
        while Instant::now() < end {
            interrupt::check()?;
            for _ in 0..CALLS_PER_LOOK {
                let began = Instant::now();
                call();
                done.count(began.elapsed());
            }
        }
        slept = cpu::sleeps_of_this_thread()? - before;
        Ok(done)
    }])?;
    let mut sample = meter.stop(&load)?;
    sample.set(Metric::Sleeps, slept as f64 * 1e6 / load.operations as f64);
    Ok(sample)
}

fn conclude(results: &Results<'_>) -> Vec<String> {
    let rows = &results.sections[0].rows;
    let median = |row: usize, metric| Some(rows.get(row)?.spread(metric)?.median);
    let worst = |metric| (1..=STATES.len()).filter_map(|row| median(row, metric)).fold(0.0, f64::max);
    let (Some(copy), p50, p999) =
        (median(0, Metric::LatencyP50), worst(Metric::LatencyP50), worst(Metric::LatencyP999))
    else {
        return Vec::new();
    };
    let mut said = vec![format!(
        "Whatever its server does, half of all calls of send take at most {:.0} ns, {:.0} ns more than the copy alone, and 999 of \
         1,000 at most {p999:.1} us.",
        p50 * 1000.0,
        (p50 - copy) * 1000.0,
    )];
    let dropped: Vec<String> = STATES
        .iter()
        .zip(1..)
        .filter_map(|((name, _), row)| Some((name, median(row, Metric::Dropped)?)))
        .filter(|(_, percent)| *percent > 0.0)
        .map(|(name, percent)| format!("{} % ({name})", Metric::Dropped.show(percent)))
        .collect();
    if !dropped.is_empty() {
        said.push(format!(
            "Calls that found no room, so that their message was dropped and counted: {}. The time of such a call is not the \
             cost of a message that is kept.",
            dropped.join(", ")
        ));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{RowResults, SectionResults};

    #[test]
    fn calls_that_dropped_their_message_are_told_by_state_where_there_are_any() {
        let row = |name: &'static str, dropped: Option<f64>| {
            let mut sample = Sample::default();
            sample.set(Metric::LatencyP50, 0.05);
            sample.set(Metric::LatencyP999, 0.5);
            if let Some(dropped) = dropped {
                sample.set(Metric::Dropped, dropped);
            }
            RowResults { name, asked: None, samples: vec![Some(sample)] }
        };
        let conclusion = |percents: [f64; 5]| {
            let copy = std::iter::once(row("a copy", None));
            let states = STATES.iter().zip(percents).map(|((name, _), dropped)| row(name, Some(dropped)));
            let section = Section::blank();
            let sections = vec![SectionResults { section: &section, rows: copy.chain(states).collect() }];
            conclude(&Results { sections, failures: Vec::new() })
        };
        assert_eq!(conclusion([0.0; 5]).len(), 1);
        let said = conclusion([0.0, 97.34, 0.0, 88.0, 0.012]);
        let expected = ": 97.3 % (the server is stopped (SIGSTOP)), 88.0 % (no server), 0.012 % (the name does not resolve).";
        assert!(said[1].contains(expected), "{said:?}");
    }
}
