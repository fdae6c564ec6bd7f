//! What it costs to read the requests of senders, on this machine: `cargo run --release -p bbq-senders --example senders_cost`.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use bbq_senders::elasticsearch::{BulkDefaults, bulk};
use bbq_senders::loki::{Encoding, decompressed, push};
use bbq_senders::splunk::{Defaults, events};
use bbq_senders::{Limits, gelf};

/// Of a request.
const MESSAGES: usize = 10_000;
/// How long each is read again and again.
const PATIENCE: Duration = Duration::from_secs(1);

fn line(number: usize) -> String {
    format!(
        "2026-11-30T10:00:00Z info order {number} took 2.5 s and was paid by card at the till of the shop"
    )
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
    out
}

fn loki() -> Vec<u8> {
    let entry = |number: usize| {
        let time = field(1, &[0x08, 0x80, 0xa8, 0xc4, 0xd5, 0x06, 0x10, 0x07]);
        field(2, &[time, field(2, line(number).as_bytes())].concat())
    };
    let labels = field(1, br#"{app="shop", level="info", host="web-1"}"#);
    let entries: Vec<u8> = (0..MESSAGES).flat_map(entry).collect();
    field(1, &[labels, entries].concat())
}

/// Prints the time of each message, and how many bytes a second that is.
fn measure(name: &str, body: &[u8], read: impl Fn(&[u8]) -> usize) {
    let begin = Instant::now();
    let mut messages = 0;
    while begin.elapsed() < PATIENCE {
        messages += read(body);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let requests = messages / MESSAGES;
    println!(
        "{name:<24} {:>6.0} ns a message, {:>6.0} MB/s",
        seconds * 1e9 / messages as f64,
        (body.len() * requests) as f64 / seconds / 1e6
    );
}

fn main() {
    let limits = Limits::of_a_batch(1 << 20);
    let (mut same, mut ids, mut hec, mut graylog) =
        (String::new(), String::new(), String::new(), String::new());
    for number in 0..MESSAGES {
        let document =
            format!("{{\"@timestamp\":\"2026-11-30T10:00:00.123Z\",\"message\":\"{}\"}}", line(number));
        // Writing to a String cannot fail.
        let _infallible = writeln!(same, "{{\"create\":{{\"_index\":\"logs\"}}}}\n{document}");
        let _infallible =
            writeln!(ids, "{{\"create\":{{\"_index\":\"logs\",\"_id\":\"{number}\"}}}}\n{document}");
        let _infallible =
            write!(hec, "{{\"time\":1790000000.123,\"host\":\"web-1\",\"event\":\"{}\"}}", line(number));
        let _infallible = write!(
            graylog,
            "{{\"version\":\"1.1\",\"host\":\"web-1\",\"timestamp\":1790000000.123,\"level\":6,\"short_message\":\"{}\"}}",
            line(number)
        );
    }
    let protobuf = loki();
    let block = snap::raw::Encoder::new().compress_vec(&protobuf).unwrap_or_default();
    let lines: String = (0..MESSAGES).map(|number| line(number) + "\n").collect();
    let count = |events: Option<bbq_wire::batch::Events>| events.map_or(0, |events| events.len());
    measure("lines", lines.as_bytes(), |body| {
        body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count()
    });
    measure("Loki", &protobuf, |body| {
        count(push(Encoding::Protobuf, body, None, limits).ok().map(|push| push.events))
    });
    measure("Loki, with snappy", &block, |body| {
        let body = decompressed(body).unwrap_or_default();
        count(push(Encoding::Protobuf, &body, None, limits).ok().map(|push| push.events))
    });
    let read = |body: &[u8]| count(bulk(body, BulkDefaults::default(), limits).ok().map(|bulk| bulk.events));
    measure("_bulk", same.as_bytes(), read);
    measure("_bulk, with ids", ids.as_bytes(), read);
    measure("Splunk", hec.as_bytes(), |body| count(events(body, &Defaults::default(), limits).ok()));
    measure("GELF", graylog.as_bytes(), |body| count(gelf::messages(body, limits).ok()));
}
