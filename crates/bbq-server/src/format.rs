//! Messages as text: raw, one line each, or JSON with all that is known about them.

use std::io::Write as _;

use bbq_spool::Entry;
use bbq_wire::{Peer, SourceKind};
use chrono::{DateTime, SecondsFormat};
use data_encoding::BASE64;
use serde::Serialize;

use crate::syslog::{self, SyslogFields};

use crate::otlp::{OtlpFields, put_body};

/// How a message is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The message as it came, and a line feed unless it ends with one.
    #[default]
    Raw,
    /// One JSON object per line, with all that is known about the message.
    Json,
}

/// Appends messages to a buffer, as sinks write them.
pub struct Formatter {
    format: Format,
}

/// One message in JSON. Fields that are not known are left out.
#[derive(Serialize)]
struct Record<'a> {
    /// When it was received, RFC 3339 with nanoseconds, UTC.
    time: &'a str,
    listener: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    worker: u32,
    stream: &'a str,
    sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    /// Instead of `message` if the message is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_base64: Option<String>,
    /// Of dead letters: what the destination said.
    #[serde(skip_serializing_if = "Option::is_none")]
    rejected: Option<&'a str>,
    #[serde(flatten)]
    syslog: Option<SyslogFields>,
    /// Instead of `message`.
    #[serde(flatten)]
    otlp: Option<OtlpFields>,
}

impl Formatter {
    /// A formatter for `format`.
    #[must_use]
    pub fn new(format: Format) -> Formatter {
        Formatter { format }
    }

    /// Appends every message of a batch.
    pub fn append(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        match self.format {
            Format::Raw => append_raw(entry, out, |_| {}),
            Format::Json => append_json(entry, out, |_| {}),
        }
    }

    /// The same, and adds the length of `out` after each message to `ends`.
    pub(super) fn append_with_ends(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>, ends: &mut Vec<usize>) {
        match self.format {
            Format::Raw => append_raw(entry, out, |end| ends.push(end)),
            Format::Json => append_json(entry, out, |end| ends.push(end)),
        }
    }
}

fn append_raw(entry: &Entry<'_>, out: &mut Vec<u8>, mut ended: impl FnMut(usize)) {
    let header = &entry.batch.header;
    // Each length prefix is at least as long as the line feed that takes its place.
    out.reserve(header.records_bytes as usize);
    for record in entry.batch.records() {
        let from = out.len();
        if header.source == SourceKind::Otlp {
            put_body(record, out);
        } else {
            out.extend_from_slice(record);
        }
        if out[from..].last() != Some(&b'\n') {
            out.push(b'\n');
        }
        ended(out.len());
    }
}

fn append_json(entry: &Entry<'_>, out: &mut Vec<u8>, mut ended: impl FnMut(usize)) {
    let header = &entry.batch.header;
    let origin = entry.origin();
    let time = i64::try_from(origin.received_ns).unwrap_or(i64::MAX);
    let time = DateTime::from_timestamp_nanos(time).to_rfc3339_opts(SecondsFormat::Nanos, true);
    let stream = header.stream.to_string();
    let rejected = entry.batch.rejection();
    let records = entry.batch.records().zip(entry.peers());
    for (sequence, (record, peer)) in (header.first_sequence..).zip(records) {
        let peer = match peer {
            Peer::Unnamed => None,
            Peer::Inet(address) => Some(address.to_string()),
        };
        let otlp = (header.source == SourceKind::Otlp).then(|| OtlpFields::of(record)).flatten();
        let text = std::str::from_utf8(record).ok();
        let record = Record {
            time: &time,
            listener: origin.listener,
            peer,
            worker: entry.lane,
            stream: &stream,
            sequence,
            message: text.filter(|_| otlp.is_none()),
            message_base64: (text.is_none() && otlp.is_none()).then(|| BASE64.encode(record)),
            rejected,
            syslog: (header.source == SourceKind::Syslog).then(|| syslog::read(record)),
            otlp,
        };
        // Texts and numbers always serialize, and a Vec takes every byte.
        let _infallible = serde_json::to_writer(&mut *out, &record);
        let _infallible = out.write_all(b"\n");
        ended(out.len());
    }
}
