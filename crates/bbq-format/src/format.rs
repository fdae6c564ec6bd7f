//! Messages as text: raw, one line each, or JSON with all that is known about them, also in the envelopes of some servers.

use std::borrow::Cow;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};

use bbq_spool::{Entry, ParseFields};
use bbq_wire::batch::{Detail, Fields, Origin, Output};
use bbq_wire::{Peer, SourceKind};
use chrono::{DateTime, SecondsFormat};
use data_encoding::BASE64;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::journal;
use crate::labels::{FieldLabels, LISTENER, Labels};
use crate::names::Names;
use crate::otlp::{OtlpFields, append_log_records, put_body};
use crate::parsed::ParsedMembers;
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
    /// The index of each message, for Elasticsearch; the values of labels from fields, for Loki.
    names: Option<Arc<Mutex<Names>>>,
    labels: Option<FieldLabels>,
}

/// Who sent a message.
#[derive(Serialize)]
struct PeerJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    #[serde(flatten)]
    process: Option<PeerProcess>,
}

impl PeerJson {
    fn of(peer: Peer) -> PeerJson {
        let (peer, process) = match peer {
            Peer::Unnamed => (None, None),
            Peer::Process { pid, uid, gid } => {
                (None, Some(PeerProcess { peer_pid: NonZero::new(pid), peer_uid: uid, peer_gid: gid }))
            }
            Peer::Inet(address) => (Some(address.to_string()), None),
        };
        PeerJson { peer, process }
    }
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
    #[serde(flatten)]
    peer: PeerJson,
    worker: u32,
    stream: &'a str,
    sequence: u64,
    #[serde(flatten)]
    content: MessageJson<'a>,
}

/// What is known about one message, beside where it came from.
#[derive(Serialize)]
struct MessageJson<'a> {
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
    /// What a reader says of the message: of its file, or of its entry in a journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Cow<'a, Map<String, Value>>>,
    /// Of a container: stdout or stderr.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'static str>,
    /// Of a container: when it wrote the message, RFC 3339. Of a journal: when the entry was written.
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
            let syslog = self.content.syslog.as_ref()?;
            match name {
                "hostname" => syslog.hostname.clone(),
                "appname" => syslog.appname.clone(),
                "severity" => syslog.severity.map(str::to_owned),
                _ => syslog.facility.map(str::to_owned),
            }
        };
        let of_otlp = |name| self.content.otlp.as_ref()?.label(name);
        let value = |name| of_syslog(name).or_else(|| of_otlp(name));
        let known = labels.names().filter_map(|name| Some((name.to_owned(), value(name)?.into())));
        [(LISTENER.to_owned(), self.listener.into())].into_iter().chain(known).collect()
    }
}

impl Formatter {
    /// A formatter for `format`.
    #[must_use]
    pub fn new(format: Format) -> Formatter {
        Formatter { format, shows_rejections: false, names: None, labels: None }
    }

    /// The same; for Elasticsearch, each message names its index. All formatters of a sink share the names.
    #[must_use]
    pub fn with_index(format: Format, index: Option<Arc<Mutex<Names>>>) -> Formatter {
        Formatter { names: index, ..Formatter::new(format) }
    }

    /// The same; for Loki, each message has these labels, too. `values` are made by their template, and shared by all formatters of a sink.
    #[must_use]
    pub fn with_labels(format: Format, labels: FieldLabels, values: Arc<Mutex<Names>>) -> Formatter {
        Formatter { names: Some(values), labels: Some(labels), ..Formatter::new(format) }
    }

    /// The same; in JSON, dead letters have a field `rejected` with what their destination said.
    #[must_use]
    pub fn with_rejections(format: Format) -> Formatter {
        Formatter { shows_rejections: true, ..Formatter::new(format) }
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
        let mut names = self.names.as_ref().map(|names| names.lock().unwrap_or_else(PoisonError::into_inner));
        append_enveloped(entry, shape, (names.as_deref_mut(), self.labels.as_ref()), out, ended);
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
    let texts = BatchTexts::of(entry).with_rejection(shows_rejections);
    let mut lines = JsonLines::of(&texts);
    let mut parsed = ParsedMembers::of(entry);
    for_each_message(entry, |sequence, raw, peer, of_reader| {
        lines.append((sequence, peer), &texts.content(raw, of_reader), parsed.of_message(raw), out);
        ended(out.len());
    });
}

/// The lines of a batch: what its messages have in common is written as JSON once, and copied.
struct JsonLines {
    /// From the brace to the listener.
    begin: Vec<u8>,
    /// Of the last message: batches are made from runs of messages of a peer.
    peer: Option<(Peer, Vec<u8>)>,
    /// From behind the peer to the number.
    middle: Vec<u8>,
}

/// The members of a JSON object, each behind a comma.
fn members(value: &impl Serialize) -> Vec<u8> {
    let mut members = Vec::new();
    append_members(value, &mut members);
    members
}

fn append_members(value: &impl Serialize, out: &mut Vec<u8>) {
    let from = out.len();
    let _infallible = serde_json::to_writer(&mut *out, value);
    out.pop();
    match out.len() - from {
        // There are none.
        1 => out.truncate(from),
        _ => out[from] = b',',
    }
}

impl JsonLines {
    fn of(texts: &BatchTexts<'_>) -> JsonLines {
        let mut begin = Vec::new();
        append_members(&json!({ "time": texts.time }), &mut begin);
        begin[0] = b'{';
        append_members(&json!({ "listener": texts.origin.listener }), &mut begin);
        let mut middle = members(&json!({ "worker": texts.worker }));
        append_members(&json!({ "stream": texts.stream }), &mut middle);
        middle.extend_from_slice(b",\"sequence\":");
        JsonLines { begin, peer: None, middle }
    }

    fn append(
        &mut self,
        (sequence, peer): (u64, Peer),
        content: &MessageJson<'_>,
        parsed: &[u8],
        out: &mut Vec<u8>,
    ) {
        if self.peer.as_ref().is_none_or(|(last, _)| *last != peer) {
            self.peer = Some((peer, members(&PeerJson::of(peer))));
        }
        out.extend_from_slice(&self.begin);
        out.extend_from_slice(self.peer.as_ref().map_or(&[][..], |(_, peer)| peer));
        out.extend_from_slice(&self.middle);
        let _infallible = serde_json::to_writer(&mut *out, &sequence);
        append_members(content, out);
        out.extend_from_slice(parsed);
        out.extend_from_slice(b"}\n");
    }
}

/// Texts and numbers always serialize, and a Vec takes every byte.
fn append_line(value: &impl Serialize, out: &mut Vec<u8>) {
    append_object(value, &[], out);
    out.push(b'\n');
}

/// Appends an object that has members, and further ones.
fn append_object(value: &impl Serialize, further: &[u8], out: &mut Vec<u8>) {
    let _infallible = serde_json::to_writer(&mut *out, value);
    if !further.is_empty() {
        out.pop();
        out.extend_from_slice(further);
        out.push(b'}');
    }
}

fn append_enveloped(
    entry: &Entry<'_>,
    (envelope, content): (Envelope, Content),
    (mut names, fields): (Option<&mut Names>, Option<&FieldLabels>),
    out: &mut Vec<u8>,
    mut ended: impl FnMut(usize),
) {
    if let Some(names) = &mut names {
        names.begin(entry);
    }
    let received_ns = entry.origin().received_ns;
    let is_otlp = entry.batch.header.source == SourceKind::Otlp;
    let texts = BatchTexts::of(entry).with_rejection(false);
    let mut parsed = ParsedMembers::of(entry);
    for_each_message(entry, |sequence, raw, peer, of_reader| {
        let name = names.as_mut().map(|names| names.name(raw, of_reader.fields.as_ref()));
        let record = &texts.record(sequence, raw, peer, of_reader);
        match (envelope, content) {
            (Envelope::Elasticsearch, _) => {
                let id = format!("{}-{}", record.stream, record.sequence);
                match name {
                    Some(name) => append_line(&json!({ "create": { "_index": name, "_id": id } }), out),
                    None => append_line(&json!({ "create": { "_id": id } }), out),
                }
                append_object(&Timestamped { timestamp: record.time, record }, parsed.of_message(raw), out);
                out.push(b'\n');
            }
            (Envelope::Loki(labels), content) => {
                let line = match content {
                    Content::Text => text_of(raw, is_otlp),
                    Content::Json => {
                        let mut line = Vec::new();
                        append_object(record, parsed.of_message(raw), &mut line);
                        String::from_utf8(line).unwrap_or_default()
                    }
                };
                let value = (received_ns.to_string(), line);
                let mut stream = record.labels(labels);
                if let (Some(fields), Some(values)) = (fields, name) {
                    let fields = fields.values(values);
                    stream.extend(fields.map(|(label, value)| (label.to_owned(), value.into())));
                }
                append_line(&json!({ "stream": stream, "values": [value] }), out);
            }
            (Envelope::Splunk, content) => {
                out.extend_from_slice(b"{\"event\":");
                match content {
                    Content::Text => append_object(&text_of(raw, is_otlp), &[], out),
                    Content::Json => append_object(record, parsed.of_message(raw), out),
                }
                let time = format!("{}.{:09}", received_ns / 1_000_000_000, received_ns % 1_000_000_000);
                append_members(&json!({ "source": record.listener, "time": time }), out);
                out.extend_from_slice(b"}\n");
            }
        }
        ended(out.len());
    });
}

/// The text of a message without the line feeds at its end.
fn text_of(raw: &[u8], is_otlp: bool) -> String {
    let mut body = Vec::new();
    if is_otlp {
        put_body(raw, &mut body);
    }
    String::from_utf8_lossy(if is_otlp { &body } else { raw }).trim_end_matches('\n').to_owned()
}

/// What Elasticsearch wants to know by this name.
#[derive(Serialize)]
struct Timestamped<'a> {
    #[serde(rename = "@timestamp")]
    timestamp: &'a str,
    #[serde(flatten)]
    record: &'a Record<'a>,
}

/// A message of a batch, for [`BatchTexts::append_json`].
#[derive(Clone, Debug)]
pub struct BatchMessage<'a> {
    /// Its number.
    pub sequence: u64,
    /// All of it.
    pub bytes: &'a [u8],
    /// What is shown of it.
    pub shown: &'a [u8],
    /// Who sent it.
    pub peer: Peer,
    /// What the log of a container says of it.
    pub detail: Option<Detail>,
    /// The fields that it has of its own.
    pub fields: Option<Fields<'a>>,
}

/// What the messages of a batch have in common, as texts.
pub struct BatchTexts<'a> {
    entry: &'a Entry<'a>,
    origin: Origin<'a>,
    time: String,
    stream: String,
    worker: u32,
    source: SourceKind,
    /// Whether a header of syslog is read in each message.
    reads_syslog: bool,
    rejected: Option<&'a str>,
    fields: Map<String, Value>,
}

impl<'a> BatchTexts<'a> {
    /// The texts of this batch.
    #[must_use]
    pub fn of(entry: &'a Entry<'a>) -> BatchTexts<'a> {
        let origin = entry.origin();
        let fields = entry.batch.fields().map(|(name, value)| (name.to_owned(), value.into()));
        let source = entry.batch.header.source;
        let by_rules = |parser: &Arc<dyn ParseFields>| parser.reads_syslog(entry.source);
        BatchTexts {
            entry,
            origin,
            time: rfc3339(origin.received_ns),
            fields: fields.collect(),
            stream: entry.batch.header.stream.to_string(),
            worker: entry.lane,
            source,
            reads_syslog: source == SourceKind::Syslog
                || (source != SourceKind::Otlp && entry.parser.is_some_and(by_rules)),
            rejected: entry.batch.rejection(),
        }
    }

    /// The same, with what the destination of a dead letter said or without it.
    fn with_rejection(self, is_shown: bool) -> BatchTexts<'a> {
        BatchTexts { rejected: self.rejected.filter(|_| is_shown), ..self }
    }

    /// Appends a message as JSON, as [`Format::Json`] does; or its beginning, with the length of the whole.
    pub fn append_json(&self, message: BatchMessage<'_>, out: &mut Vec<u8>) {
        let BatchMessage { sequence, bytes, shown, peer, detail, fields } = message;
        let mut record = self.record(sequence, shown, peer, OfReader { detail, fields });
        record.content.message_bytes = (shown.len() < bytes.len()).then_some(bytes.len());
        append_object(&record, ParsedMembers::of(self.entry).of_message(bytes), out);
        out.push(b'\n');
    }

    fn record<'b>(&'b self, sequence: u64, raw: &'b [u8], peer: Peer, of_reader: OfReader<'_>) -> Record<'b> {
        Record {
            time: &self.time,
            listener: self.origin.listener,
            peer: PeerJson::of(peer),
            worker: self.worker,
            stream: &self.stream,
            sequence,
            content: self.content(raw, of_reader),
        }
    }

    fn content<'b>(
        &'b self,
        raw: &'b [u8],
        OfReader { detail, fields: own }: OfReader<'_>,
    ) -> MessageJson<'b> {
        let otlp = (self.source == SourceKind::Otlp).then(|| OtlpFields::of(raw)).flatten();
        let text = std::str::from_utf8(raw).ok();
        let output = match detail.map_or(Output::Unknown, |detail| detail.output) {
            Output::Unknown => None,
            Output::Stdout => Some("stdout"),
            Output::Stderr => Some("stderr"),
        };
        MessageJson {
            message: text.filter(|_| otlp.is_none()),
            message_base64: (text.is_none() && otlp.is_none()).then(|| BASE64.encode(raw)),
            message_bytes: None,
            rejected: self.rejected,
            fields: self.fields_with(own.clone()),
            output,
            written: detail.filter(|detail| detail.time_ns > 0).map(|detail| rfc3339(detail.time_ns)),
            syslog: match own {
                // Of a request with fields, the message may have a header all the same.
                Some(own) if self.source != SourceKind::Http => Some(journal::fields(own)),
                _ if self.reads_syslog => Some(syslog::read(raw, self.origin.received_ns)),
                _ => None,
            },
            otlp,
        }
    }

    /// The fields of the batch, and those of a message of its own.
    fn fields_with(&self, own: Option<Fields<'_>>) -> Option<Cow<'_, Map<String, Value>>> {
        let fields = match own {
            None => Cow::Borrowed(&self.fields),
            Some(own) => {
                let own = own.map(|(name, value)| (name.to_owned(), value.into()));
                Cow::Owned(self.fields.clone().into_iter().chain(own).collect())
            }
        };
        (!fields.is_empty()).then_some(fields)
    }
}

/// What a reader says of one message.
#[derive(Clone, Default)]
struct OfReader<'a> {
    detail: Option<Detail>,
    fields: Option<Fields<'a>>,
}

fn rfc3339(unix_ns: u64) -> String {
    let time = i64::try_from(unix_ns).unwrap_or(i64::MAX);
    DateTime::from_timestamp_nanos(time).to_rfc3339_opts(SecondsFormat::Nanos, true)
}

/// Calls `f` for each message of a batch, with its number, the message as it came, who sent it, and what a reader says of it alone.
fn for_each_message(entry: &Entry<'_>, mut f: impl FnMut(u64, &[u8], Peer, OfReader<'_>)) {
    let mut details = entry.batch.details();
    let mut own_fields = entry.batch.record_fields();
    for (sequence, raw, peer) in entry.numbered() {
        f(sequence, raw, peer, OfReader { detail: details.next(), fields: own_fields.next() });
    }
}

#[cfg(test)]
mod tests {
    use bbq_spool::{Envelope as SpoolEnvelope, NameMark, ParsedRecord};
    use bbq_wire::batch::BatchIdentity;
    use bbq_wire::{Batch, BatchBuilder, Compression, StreamId};

    use super::*;

    /// Calls `look` with a batch of these messages.
    fn with_entry(source: SourceKind, peer: Peer, messages: &[&[u8]], look: impl Fn(&Entry<'_>)) {
        let mut builder = BatchBuilder::new();
        for (number, message) in (1..).zip(messages) {
            builder.push(message);
            if source == SourceKind::Lines {
                builder.set_detail(Detail { time_ns: number * 1_000_000_007, output: Output::Stderr });
            }
        }
        builder.set_fields([("pod", "web-1"), ("quoted", "a \"b\"")].into_iter());
        builder.set_rejection("no \"thanks\"");
        let identity = BatchIdentity {
            stream: StreamId([7; 16]),
            first_sequence: 41,
            base_time_ns: 0,
            source,
            compression: Compression::None,
        };
        let bytes = builder.finish(&identity).unwrap();
        let mut scratch = Vec::new();
        let batch = Batch::verified_before(bytes, &mut scratch).unwrap();
        let envelope = SpoolEnvelope {
            source: 0,
            received_ns: 1_790_000_000_123_456_789,
            peer,
            name_mark: NameMark::NOBODY,
        };
        look(&Entry { lane: 7, source: "in \"1\"\n", envelope, batch, parser: None });
    }

    #[test]
    fn a_line_of_a_batch_is_the_json_of_its_message() {
        let messages: [&[u8]; 5] = [
            b"",
            b"plain \"text\"\n",
            b"\xff\x00 no text",
            b"<34>1 - web app 12 - - text",
            b"\x1a\x02\x08\x09",
        ];
        let process = Peer::Process { pid: 12, uid: 0, gid: 1000 };
        let unseen = Peer::Process { pid: 0, uid: 5, gid: 6 };
        let address = Peer::Inet("[2001:db8::1]:514".parse().unwrap());
        for source in [SourceKind::Lines, SourceKind::Syslog, SourceKind::Otlp, SourceKind::Bbq] {
            for (peer, shows_rejections) in
                [(Peer::Unnamed, true), (process, false), (unseen, true), (address, false)]
            {
                with_entry(source, peer, &messages, |entry| {
                    let (mut lines, mut whole) = (Vec::new(), Vec::new());
                    append_json(entry, shows_rejections, &mut lines, |_| {});
                    let texts = BatchTexts::of(entry).with_rejection(shows_rejections);
                    for_each_message(entry, |sequence, raw, peer, of_reader| {
                        append_line(&texts.record(sequence, raw, peer, of_reader), &mut whole);
                    });
                    let (lines, whole) =
                        (String::from_utf8(lines).unwrap(), String::from_utf8(whole).unwrap());
                    assert_eq!(lines, whole, "{source:?} from {peer:?}");
                    assert_eq!(lines.lines().count(), messages.len());
                });
            }
        }
    }

    /// Finds the same in every record but one.
    #[derive(Debug)]
    struct Fixed;

    impl ParseFields for Fixed {
        fn reads_syslog(&self, listener: &str) -> bool {
            assert_eq!(listener, "in \"1\"\n");
            true
        }

        fn put_json(&self, record: &ParsedRecord<'_>, out: &mut Vec<u8>) -> Option<u64> {
            let is_found = record.bytes != b"nothing";
            out.extend_from_slice(if is_found { b"{\"a\":{\"b\":[1]}}" } else { b"" });
            is_found.then(|| record.bytes.len() as u64 - 4)
        }

        fn put_texts(&self, _: &ParsedRecord<'_>, _: &[String], _: &mut [String]) {}
    }

    #[test]
    fn what_is_found_in_a_message_is_a_part_of_its_json() {
        let messages: [&[u8]; 3] = [b"text", b"nothing", b"<34>1 - web app 12 - - more"];
        let parser: Arc<dyn ParseFields> = Arc::new(Fixed);
        let json = Content::Json;
        with_entry(SourceKind::Lines, Peer::Unnamed, &messages, |entry| {
            let entry = &Entry { parser: Some(&parser), ..entry.with_batch(entry.batch.clone()) };
            for format in [
                Format::Json,
                Format::Enveloped(Envelope::Elasticsearch, json),
                Format::Enveloped(Envelope::Splunk, json),
                Format::Enveloped(Envelope::Loki(Labels::default()), json),
            ] {
                let mut out = Vec::new();
                Formatter::new(format).append(entry, &mut out);
                let lines = String::from_utf8(out).unwrap();
                let values = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
                let records: Vec<Value> = match format {
                    Format::Enveloped(Envelope::Elasticsearch, _) => values.skip(1).step_by(2).collect(),
                    Format::Enveloped(Envelope::Splunk, _) => {
                        values.map(|line| line["event"].clone()).collect()
                    }
                    Format::Enveloped(..) => values
                        .map(|line| serde_json::from_str(line["values"][0][1].as_str().unwrap()).unwrap())
                        .collect(),
                    _ => values.collect(),
                };
                assert_eq!(records.len(), messages.len(), "{lines}");
                let found = |index: usize| (&records[index]["parsed"], &records[index]["parsed_omitted"]);
                let parsed = json!({ "a": { "b": [1] } });
                assert_eq!(found(0), (&parsed, &Value::Null), "{lines}");
                assert_eq!(found(1), (&Value::Null, &Value::Null), "{lines}");
                assert_eq!(found(2), (&parsed, &json!(messages[2].len() - 4)), "{lines}");
                // The rules say that these have a header of syslog.
                assert_eq!((&records[2]["hostname"], &records[2]["msg"]), (&json!("web"), &json!("more")));
            }
        });
    }
}
