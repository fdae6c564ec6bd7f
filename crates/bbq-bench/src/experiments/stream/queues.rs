//! A stream beside queues that do less, each said in the section.

use bbq_wire::AckLevel;

use super::pipeline::{self, BYTES, measure};
use crate::load::pipe::{self, Pipe};
use crate::meter::Meter;
use crate::metric::Metric;
use crate::peers::floor::{self, Floor};
use crate::peers::{self, nats, zeromq};
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::settings::Settings;

pub(super) fn section(settings: &Settings, left_out: &mut Vec<String>) -> Section {
    let section = pipeline::section(
        "beside other queues, 100 B, one connection",
        "bbq is the only one that keeps a message and says so: it verifies, spools, syncs, acknowledges, and writes a file. NATS \
         core has no subscriber and ZeroMQ's receiver only counts: both store nothing. The floor in C stores the bytes once \
         and syncs each MiB, but knows no messages.",
        Drawing::Bars(Metric::ServerCpu),
        rows(settings, left_out),
    );
    Section { baseline: Some((0, Metric::ServerCpu)), ..section }
}

fn rows(settings: &Settings, left_out: &mut Vec<String>) -> Vec<Row> {
    let mut rows = vec![Row::new("bbq, durable", |settings| measure(settings, BYTES, 1, AckLevel::Durable))];
    if let Some(floor) = floor::available(settings, "stream_durable", left_out) {
        rows.push(Row::other("bare C: CRC-32C, write, sync", move |settings| {
            bytes_to_floor(settings, &floor, BYTES)
        }));
    }
    if settings.peers && peers::installed("nats-server", left_out) {
        rows.push(Row::other("NATS core", |settings| {
            let peer = nats::start(settings)?;
            let meter = Meter::start(Some(peer.pid()))?;
            let sample = meter.stop(&nats::publish(settings, &peer, BYTES)?)?;
            peer.kill();
            Ok(sample)
        }));
    }
    if let Some(zeromq) = zeromq::available(settings, left_out) {
        rows.push(Row::other("ZeroMQ PUSH/PULL", move |settings| zeromq.measure(settings, BYTES as u64)));
    }
    rows
}

fn bytes_to_floor(settings: &Settings, floor: &Floor, message_bytes: usize) -> anyhow::Result<Sample> {
    let output = settings.directory.join("output");
    let messages = pipe::PIECE_BYTES / message_bytes;
    floor.measure(settings, &[&output.display().to_string()], true, |server| {
        pipe::run(&Pipe {
            server,
            duration: settings.duration,
            hello: b"",
            piece: &vec![b'x'; messages * message_bytes],
            messages: messages as u64,
            message_bytes: message_bytes as u64,
            question: b"",
            is_answer: |said| said.len() == size_of::<u64>(),
        })
    })
}
