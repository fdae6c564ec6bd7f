//! Messages as text: raw, one line each, or JSON with all that is known about them, also in the envelopes of some servers.

use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};

use bbq_spool::Entry;
use bbq_wire::batch::{Detail, Origin, Output};
use bbq_wire::{Peer, SourceKind};
use chrono::{DateTime, SecondsFormat};
use data_encoding::BASE64;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::labels::Labels;
use crate::names::Names;
use crate::otlp::{OtlpFields, append_log_records, put_body};
use crate::syslog::{self, SyslogFields};

/// How a message is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The message as it came, and a line feed unless it ends with one.
    #[default]
    Raw,
    /// One JSON object per line, with all that is known about the message.
    Json,
    /// One or two lines per message, as a server with an interface of its own wants them.
    Enveloped(Envelope, Content),
    /// A log record of OTLP with its resource and scope, in Protocol Buffers; not a line.
    Otlp,
}

/// What is around a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// The bulk interface of Elasticsearch: a line that says `create`, with an id that is the same each time, and a line with the
    /// message, as JSON with `@timestamp`.
    Elasticsearch,
    /// An entry of `streams` of Loki's push interface, with the label `listener` and others.
    Loki(Labels),
    /// An event of Splunk's HTTP event collector.
    Splunk,
}

/// What is in an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The text of the message.
    Text,
    /// All that is known about it, as JSON.
    Json,
}

/// Appends messages to a buffer, as sinks write them.
pub struct Formatter {
    format: Format,
    shows_rejections: bool,
    /// The index of each message, for Elasticsearch.
    index: Option<Arc<Mutex<Names>>>,
}

/// The process that sent a message by a unix socket. The names say that they are not those of the message's own header.
#[derive(Clone, Copy, Serialize)]
struct PeerProcess {
    /// Not there when the server could not see the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_pid: Option<NonZero<u32>>,
    peer_uid: u32,
    peer_gid: u32,
}

/// One message in JSON. Fields that are not known are left out.
#[derive(Serialize)]
struct Record<'a> {
    /// When it was received, RFC 3339 with nanoseconds, UTC.
    time: &'a str,
    listener: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    #[serde(flatten)]
    process: Option<PeerProcess>,
    worker: u32,
    stream: &'a str,
    sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    /// Instead of `message` if the message is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_base64: Option<String>,
    /// Of a message of which only the beginning is here: the length of the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_bytes: Option<usize>,
    /// Of dead letters: what the destination said.
    #[serde(skip_serializing_if = "Option::is_none")]
    rejected: Option<&'a str>,
    /// What a reader says of the file: fields that all of its messages have.
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<&'a Map<String, Value>>,
    /// Of a container: stdout or stderr.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'static str>,
    /// Of a container: when it wrote the message, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<String>,
    #[serde(flatten)]
    syslog: Option<SyslogFields>,
    /// Instead of `message`.
    #[serde(flatten)]
    otlp: Option<OtlpFields>,
}

impl Record<'_> {
    /// The labels that the message has.
    fn labels(&self, labels: Labels) -> Map<String, Value> {
        let of_syslog = |name| {
            let syslog = self.syslog.as_ref()?;
            match name {
                "hostname" => syslog.hostname.clone(),
                "appname" => syslog.appname.clone(),
                "severity" => syslog.severity.map(str::to_owned),
                _ => syslog.facility.map(str::to_owned),
            }
        };
        let of_otlp = |name| self.otlp.as_ref()?.label(name);
        let value = |name| of_syslog(name).or_else(|| of_otlp(name));
        let known = labels.names().filter_map(|name| Some((name.to_owned(), value(name)?.into())));
        [("listener".to_owned(), self.listener.into())].into_iter().chain(known).collect()
    }
}

impl Formatter {
    /// A formatter for `format`.
    #[must_use]
    pub fn new(format: Format) -> Formatter {
        Formatter { format, shows_rejections: false, index: None }
    }

    /// The same; for Elasticsearch, each message names its index. All formatters of a sink share the names.
    #[must_use]
    pub fn with_index(format: Format, index: Option<Arc<Mutex<Names>>>) -> Formatter {
        Formatter { format, shows_rejections: false, index }
    }

    /// The same; in JSON, dead letters have a field `rejected` with what their destination said.
    #[must_use]
    pub fn with_rejections(format: Format) -> Formatter {
        Formatter { format, shows_rejections: true, index: None }
    }

    /// Appends every message of a batch.
    pub fn append(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        match self.format {
            Format::Raw => append_raw(entry, out, |_| {}),
            Format::Json => append_json(entry, self.shows_rejections, out, |_| {}),
            Format::Enveloped(envelope, content) => {
                self.append_enveloped(entry, (envelope, content), out, |_| {});
            }
            Format::Otlp => append_log_records(entry, out, |_| {}),
        }
    }

    /// The same, and adds the length of `out` after each message to `ends`.
    pub fn append_with_ends(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>, ends: &mut Vec<usize>) {
        match self.format {
            Format::Raw => append_raw(entry, out, |end| ends.push(end)),
            Format::Json => append_json(entry, self.shows_rejections, out, |end| ends.push(end)),
            Format::Enveloped(envelope, content) => {
                self.append_enveloped(entry, (envelope, content), out, |end| ends.push(end));
            }
            Format::Otlp => append_log_records(entry, out, |end| ends.push(end)),
        }
    }

    fn append_enveloped(
        &self,
        entry: &Entry<'_>,
        shape: (Envelope, Content),
        out: &mut Vec<u8>,
        ended: impl FnMut(usize),
    ) {
        let index = self.index.as_ref().map(|names| names.lock().unwrap_or_else(PoisonError::into_inner));
        match index {
            Some(mut names) => append_enveloped(entry, shape, Some(&mut names), out, ended),
            None => append_enveloped(entry, shape, None, out, ended),
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

fn append_json(entry: &Entry<'_>, shows_rejections: bool, out: &mut Vec<u8>, mut ended: impl FnMut(usize)) {
    for_each_record(entry, shows_rejections, |record, _| {
        append_line(record, out);
        ended(out.len());
    });
}

/// Texts and numbers always serialize, and a Vec takes every byte.
fn append_line(value: &impl Serialize, out: &mut Vec<u8>) {
    let _infallible = serde_json::to_writer(&mut *out, value);
    out.push(b'\n');
}

fn append_enveloped(
    entry: &Entry<'_>,
    (envelope, content): (Envelope, Content),
    mut index: Option<&mut Names>,
    out: &mut Vec<u8>,
    mut ended: impl FnMut(usize),
) {
    if let Some(names) = &mut index {
        names.begin(entry);
    }
    let received_ns = entry.origin().received_ns;
    let is_otlp = entry.batch.header.source == SourceKind::Otlp;
    let text = |raw: &[u8]| {
        let mut body = Vec::new();
        if is_otlp {
            put_body(raw, &mut body);
        }
        String::from_utf8_lossy(if is_otlp { &body } else { raw }).trim_end_matches('\n').to_owned()
    };
    for_each_record(entry, false, |record, raw| {
        match (envelope, content) {
            (Envelope::Elasticsearch, _) => {
                let id = format!("{}-{}", record.stream, record.sequence);
                match &mut index {
                    Some(names) => {
                        append_line(&json!({ "create": { "_index": names.name(raw), "_id": id } }), out);
                    }
                    None => append_line(&json!({ "create": { "_id": id } }), out),
                }
                append_line(&Timestamped { timestamp: record.time, record }, out);
            }
            (Envelope::Loki(labels), content) => {
                let line = match content {
                    Content::Text => text(raw),
                    Content::Json => serde_json::to_string(record).unwrap_or_default(),
                };
                let value = (received_ns.to_string(), line);
                append_line(&json!({ "stream": record.labels(labels), "values": [value] }), out);
            }
            (Envelope::Splunk, content) => {
                let event = match content {
                    Content::Text => Value::String(text(raw)),
                    Content::Json => serde_json::to_value(record).unwrap_or_default(),
                };
                let time = format!("{}.{:09}", received_ns / 1_000_000_000, received_ns % 1_000_000_000);
                append_line(&json!({ "time": time, "source": record.listener, "event": event }), out);
            }
        }
        ended(out.len());
    });
}

/// What Elasticsearch wants to know by this name.
#[derive(Serialize)]
struct Timestamped<'a> {
    #[serde(rename = "@timestamp")]
    timestamp: &'a str,
    #[serde(flatten)]
    record: &'a Record<'a>,
}

/// What the messages of a batch have in common, as texts.
pub struct BatchTexts<'a> {
    origin: Origin<'a>,
    time: String,
    stream: String,
    worker: u32,
    source: SourceKind,
    rejected: Option<&'a str>,
    fields: Map<String, Value>,
}

impl<'a> BatchTexts<'a> {
    /// The texts of this batch.
    #[must_use]
    pub fn of(entry: &'a Entry<'a>) -> BatchTexts<'a> {
        let origin = entry.origin();
        let fields = entry.batch.fields().map(|(name, value)| (name.to_owned(), value.into()));
        BatchTexts {
            origin,
            time: rfc3339(origin.received_ns),
            fields: fields.collect(),
            stream: entry.batch.header.stream.to_string(),
            worker: entry.lane,
            source: entry.batch.header.source,
            rejected: entry.batch.rejection(),
        }
    }

    /// Appends a message as JSON, as [`Format::Json`] does; or its beginning, with the length of the whole.
    pub fn append_json(
        &self,
        sequence: u64,
        (raw, message_bytes): (&[u8], Option<usize>),
        peer: Peer,
        out: &mut Vec<u8>,
    ) {
        append_line(&Record { message_bytes, ..self.record(sequence, raw, peer) }, out);
    }

    fn record<'b>(&'b self, sequence: u64, raw: &'b [u8], peer: Peer) -> Record<'b> {
        let (peer, process) = match peer {
            Peer::Unnamed => (None, None),
            Peer::Process { pid, uid, gid } => {
                (None, Some(PeerProcess { peer_pid: NonZero::new(pid), peer_uid: uid, peer_gid: gid }))
            }
            Peer::Inet(address) => (Some(address.to_string()), None),
        };
        let otlp = (self.source == SourceKind::Otlp).then(|| OtlpFields::of(raw)).flatten();
        let text = std::str::from_utf8(raw).ok();
        Record {
            time: &self.time,
            listener: self.origin.listener,
            peer,
            process,
            worker: self.worker,
            stream: &self.stream,
            sequence,
            message: text.filter(|_| otlp.is_none()),
            message_base64: (text.is_none() && otlp.is_none()).then(|| BASE64.encode(raw)),
            message_bytes: None,
            rejected: self.rejected,
            fields: (!self.fields.is_empty()).then_some(&self.fields),
            output: None,
            written: None,
            syslog: (self.source == SourceKind::Syslog).then(|| syslog::read(raw, self.origin.received_ns)),
            otlp,
        }
    }
}

fn rfc3339(unix_ns: u64) -> String {
    let time = i64::try_from(unix_ns).unwrap_or(i64::MAX);
    DateTime::from_timestamp_nanos(time).to_rfc3339_opts(SecondsFormat::Nanos, true)
}

/// Calls `f` for each message of a batch, with what is known about it, and the message as it came.
fn for_each_record(entry: &Entry<'_>, shows_rejections: bool, mut f: impl FnMut(&Record<'_>, &[u8])) {
    let mut texts = BatchTexts::of(entry);
    texts.rejected = texts.rejected.filter(|_| shows_rejections);
    let mut details = entry.batch.details();
    for (sequence, raw, peer) in entry.numbered() {
        let mut record = texts.record(sequence, raw, peer);
        if let Some(Detail { time_ns, output }) = details.next() {
            record.output = match output {
                Output::Unknown => None,
                Output::Stdout => Some("stdout"),
                Output::Stderr => Some("stderr"),
            };
            record.written = (time_ns > 0).then(|| rfc3339(time_ns));
        }
        f(&record, raw);
    }
}
