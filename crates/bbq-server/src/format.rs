//! Messages as text: raw, one line each, or JSON with all that is known about them.

use std::io::Write as _;

use bbq_spool::Entry;
use bbq_wire::{Peer, SourceKind};
use chrono::{DateTime, SecondsFormat, Utc};
use data_encoding::BASE64;
use serde::Serialize;
use syslog_loose::{ProcId, Variant, decompose_pri};

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
    #[serde(flatten)]
    syslog: Option<SyslogFields>,
}

/// The header of a syslog message, named as RFC 5424 section 6 does, in small letters.
#[derive(Serialize)]
struct SyslogFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    facility: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    appname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    procid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    msgid: Option<String>,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    structured_data: serde_json::Map<String, serde_json::Value>,
    /// The message without its header.
    msg: String,
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
        out.extend_from_slice(record);
        if record.last() != Some(&b'\n') {
            out.push(b'\n');
        }
        ended(out.len());
    }
}

fn append_json(entry: &Entry<'_>, out: &mut Vec<u8>, mut ended: impl FnMut(usize)) {
    let header = &entry.batch.header;
    let time = i64::try_from(entry.envelope.received_ns).unwrap_or(i64::MAX);
    let time = DateTime::from_timestamp_nanos(time).to_rfc3339_opts(SecondsFormat::Nanos, true);
    let stream = header.stream.to_string();
    // A batch names peers for all of its records or for none.
    let mut peers =
        entry.batch.peers().flat_map(|(records, peer)| std::iter::repeat_n(peer, records as usize));
    for (sequence, record) in (header.first_sequence..).zip(entry.batch.records()) {
        let peer = match peers.next().unwrap_or(entry.envelope.peer) {
            Peer::Unnamed => None,
            Peer::Inet(address) => Some(address.to_string()),
        };
        let text = std::str::from_utf8(record).ok();
        let record = Record {
            time: &time,
            listener: entry.source,
            peer,
            worker: entry.lane,
            stream: &stream,
            sequence,
            message: text,
            message_base64: text.is_none().then(|| BASE64.encode(record)),
            syslog: text.filter(|_| header.source == SourceKind::Syslog).map(syslog_fields),
        };
        // Texts and numbers always serialize, and a Vec takes every byte.
        let _infallible = serde_json::to_writer(&mut *out, &record);
        let _infallible = out.write_all(b"\n");
        ended(out.len());
    }
}

fn syslog_fields(text: &str) -> SyslogFields {
    let mut parsed =
        syslog_loose::parse_message_with_year(text, |(month, ..)| year_of(month), Variant::Either);
    if parsed.facility.is_none()
        && let Some((priority, rest)) = bare_priority(text)
    {
        (parsed.facility, parsed.severity) = decompose_pri(priority);
        parsed.msg = rest;
    }
    let structured_data = parsed.structured_data.iter().map(|element| {
        let params = element.params().map(|(name, value)| (name.to_string(), value.into())).collect();
        (element.id.to_string(), serde_json::Value::Object(params))
    });
    SyslogFields {
        facility: parsed.facility.map(|facility| facility.as_str()),
        severity: parsed.severity.map(|severity| severity.as_str()),
        timestamp: parsed.timestamp.map(|time| time.to_rfc3339()),
        hostname: parsed.hostname.map(str::to_owned),
        appname: parsed.appname.map(str::to_owned),
        procid: parsed.procid.map(|id| match id {
            ProcId::PID(pid) => pid.to_string(),
            ProcId::Name(name) => name.to_owned(),
        }),
        msgid: parsed.msgid.map(str::to_owned),
        structured_data: structured_data.collect(),
        msg: parsed.msg.to_owned(),
    }
}

/// `<13>text`: the whole header of some senders, such as Python's SysLogHandler.
fn bare_priority(text: &str) -> Option<(u8, &str)> {
    let (priority, rest) = text.strip_prefix('<')?.split_once('>')?;
    // RFC 5424 section 6.2.1: facility * 8 + severity, 0 to 191.
    let priority = priority.parse().ok().filter(|priority| *priority <= 191)?;
    Some((priority, rest))
}

/// RFC 3164 has no year: takes the current year, or the last one for a message from December that comes in January.
fn year_of(month: u32) -> i32 {
    use chrono::Datelike as _;
    let now = Utc::now();
    if month == 12 && now.month() == 1 { now.year() - 1 } else { now.year() }
}
