//! Messages as log records: one of OTLP as it came, any other as the semantic conventions of OpenTelemetry have it.
//!
//! ```text
//! resource     host.name, service.name                                        of syslog: HOSTNAME, APP-NAME
//! log record   time_unix_nano, severity_number, severity_text                 of syslog
//!              observed_time_unix_nano                                        when it was received
//!              body: a text, or bytes if it is not UTF-8                      of syslog: MSG
//!              syslog.facility, .procid, .msgid, .structured_data
//!              bbq.listener, bbq.stream, bbq.sequence, network.peer.address, network.peer.port,
//!              bbq.peer.pid, bbq.peer.uid, bbq.peer.gid                       attributes
//!              of an entry of a journal also its fields, and those of syslog
//! ```
//!
//! Each message is a ResourceLogs of its own, so messages put one behind the other are a request (`bbq_wire::otlp`).

use bbq_spool::Entry;
use bbq_wire::batch::Fields;
use bbq_wire::otlp::is_record;
use bbq_wire::{Peer, SourceKind};
use chrono::DateTime;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, message};
use serde_json::{Map, Value as Json};

use super::messages::{AnyValue, ArrayValue, KeyValue, KeyValueList, Value};
use crate::journal;
use crate::syslog::{self, SyslogFields};

/// Fields of a request, and of a ResourceLogs.
const RESOURCE_LOGS: u32 = 1;
const RESOURCE: u32 = 1;
const SCOPE_LOGS: u32 = 2;
/// Of a Resource.
const RESOURCE_ATTRIBUTES: u32 = 1;
/// Of a ScopeLogs.
const LOG_RECORDS: u32 = 2;
/// Of a LogRecord.
const TIME: u32 = 1;
const SEVERITY_NUMBER: u32 = 2;
const SEVERITY_TEXT: u32 = 3;
const BODY: u32 = 5;
const ATTRIBUTES: u32 = 6;
const OBSERVED_TIME: u32 = 11;
/// Of a KeyValue.
const KEY: u32 = 1;
const VALUE: u32 = 2;
/// Of an AnyValue.
const STRING_VALUE: u32 = 1;
const INT_VALUE: u32 = 3;
const BYTES_VALUE: u32 = 7;

/// Appends every message of a batch, and tells the length of `out` after each.
pub(crate) fn append(entry: &Entry<'_>, out: &mut Vec<u8>, mut ended: impl FnMut(usize)) {
    let header = &entry.batch.header;
    let origin = entry.origin();
    // What all log records have.
    let mut common = Vec::new();
    put_text_attribute(ATTRIBUTES, "bbq.listener", origin.listener, &mut common);
    put_text_attribute(ATTRIBUTES, "bbq.stream", &header.stream.to_string(), &mut common);
    let (mut log, mut resource) = (Vec::new(), Vec::new());
    let mut details = entry.batch.details();
    let mut own_fields = entry.batch.record_fields();
    for (sequence, raw, peer) in entry.numbered() {
        let (own, detail) = (own_fields.next(), details.next());
        // A sender of batches may call anything a log record: no receiver is to see what it must refuse.
        if header.source == SourceKind::Otlp && is_record(raw) {
            out.extend_from_slice(raw);
        } else {
            log.clear();
            resource.clear();
            put_time(OBSERVED_TIME, origin.received_ns, &mut log);
            if header.source == SourceKind::Syslog {
                put_syslog(&syslog::read(raw, origin.received_ns), raw, &mut log, &mut resource);
            } else if let Some(own) = own {
                let time_ns = detail.map_or(0, |detail| detail.time_ns);
                put_entry(own, time_ns, raw, &mut log, &mut resource);
            } else {
                put_body(raw, &mut log);
            }
            log.extend_from_slice(&common);
            match i64::try_from(sequence) {
                Ok(_) => put_int_attribute("bbq.sequence", sequence, &mut log),
                // Numbers have a sign here.
                Err(_) => put_text_attribute(ATTRIBUTES, "bbq.sequence", &sequence.to_string(), &mut log),
            }
            put_peer(peer, &mut log);
            put_record(&resource, &log, out);
        }
        ended(out.len());
    }
}

fn put_record(resource: &[u8], log: &[u8], out: &mut Vec<u8>) {
    let scope_bytes = field_bytes(log.len());
    let of_resource = if resource.is_empty() { 0 } else { field_bytes(resource.len()) };
    put_head(RESOURCE_LOGS, of_resource + field_bytes(scope_bytes), out);
    if !resource.is_empty() {
        put(RESOURCE, resource, out);
    }
    put_head(SCOPE_LOGS, scope_bytes, out);
    put(LOG_RECORDS, log, out);
}

fn put_syslog(fields: &SyslogFields, raw: &[u8], log: &mut Vec<u8>, resource: &mut Vec<u8>) {
    let time = fields.timestamp.as_deref().and_then(|time| DateTime::parse_from_rfc3339(time).ok());
    let time = time.and_then(|time| u64::try_from(time.timestamp_nanos_opt()?).ok());
    put_time(TIME, time.unwrap_or(0), log);
    if let Some(severity) = fields.severity {
        encode_key(SEVERITY_NUMBER, WireType::Varint, log);
        encode_varint(severity_number(severity), log);
        put(SEVERITY_TEXT, severity.as_bytes(), log);
    }
    put_body(fields.msg.as_deref().map_or(raw, str::as_bytes), log);
    for (key, value) in [
        ("syslog.facility", fields.facility),
        ("syslog.procid", fields.procid.as_deref()),
        ("syslog.msgid", fields.msgid.as_deref()),
    ] {
        if let Some(value) = value {
            put_text_attribute(ATTRIBUTES, key, value, log);
        }
    }
    if !fields.structured_data.is_empty() {
        let value = Some(AnyValue { value: Some(map(&fields.structured_data)) });
        let pair = KeyValue { key: "syslog.structured_data".to_owned(), value };
        message::encode(ATTRIBUTES, &pair, log);
    }
    for (key, value) in [("host.name", &fields.hostname), ("service.name", &fields.appname)] {
        if let Some(value) = value {
            put_text_attribute(RESOURCE_ATTRIBUTES, key, value, resource);
        }
    }
}

/// An entry of a journal: what syslog has too by the same names, and all fields by those of the journal.
fn put_entry(own: Fields<'_>, time_ns: u64, raw: &[u8], log: &mut Vec<u8>, resource: &mut Vec<u8>) {
    put_time(TIME, time_ns, log);
    put_syslog(&journal::fields(own.clone()), raw, log, resource);
    for (name, value) in own {
        put_text_attribute(ATTRIBUTES, name, value, log);
    }
}

/// As appendix B of the data model of logs has it. The name is that of `syslog`.
fn severity_number(severity: &str) -> u64 {
    match severity {
        "emerg" => 21,
        "alert" => 19,
        "crit" => 18,
        "err" => 17,
        "warning" => 13,
        "notice" => 10,
        "info" => 9,
        "debug" => 5,
        _ => 0,
    }
}

/// Elements of structured data with their parameters: two levels.
fn map(of: &Map<String, Json>) -> Value {
    let pairs = of.iter().map(|(key, json)| KeyValue { key: key.clone(), value: Some(any_value(json)) });
    Value::Map(KeyValueList { values: pairs.collect() })
}

fn any_value(json: &Json) -> AnyValue {
    let value = match json {
        Json::Object(params) => map(params),
        Json::Array(values) => Value::Array(ArrayValue { values: values.iter().map(any_value).collect() }),
        Json::String(text) => Value::Text(text.clone()),
        other => Value::Text(other.to_string()),
    };
    AnyValue { value: Some(value) }
}

fn put_peer(peer: Peer, log: &mut Vec<u8>) {
    match peer {
        Peer::Unnamed => {}
        Peer::Inet(address) => {
            put_text_attribute(ATTRIBUTES, "network.peer.address", &address.ip().to_string(), log);
            put_int_attribute("network.peer.port", address.port().into(), log);
        }
        Peer::Process { pid, uid, gid } => {
            if pid > 0 {
                put_int_attribute("bbq.peer.pid", pid.into(), log);
            }
            put_int_attribute("bbq.peer.uid", uid.into(), log);
            put_int_attribute("bbq.peer.gid", gid.into(), log);
        }
    }
}

/// Zero is the default, which is left out.
fn put_time(number: u32, unix_ns: u64, out: &mut Vec<u8>) {
    if unix_ns > 0 {
        encode_key(number, WireType::SixtyFourBit, out);
        out.extend_from_slice(&unix_ns.to_le_bytes());
    }
}

fn put_body(body: &[u8], log: &mut Vec<u8>) {
    let number = if std::str::from_utf8(body).is_ok() { STRING_VALUE } else { BYTES_VALUE };
    put_head(BODY, field_bytes(body.len()), log);
    put(number, body, log);
}

fn put_text_attribute(number: u32, key: &str, value: &str, out: &mut Vec<u8>) {
    let value_bytes = field_bytes(value.len());
    put_head(number, field_bytes(key.len()) + field_bytes(value_bytes), out);
    put(KEY, key.as_bytes(), out);
    put_head(VALUE, value_bytes, out);
    put(STRING_VALUE, value.as_bytes(), out);
}

fn put_int_attribute(key: &str, value: u64, log: &mut Vec<u8>) {
    let value_bytes = 1 + encoded_len_varint(value);
    put_head(ATTRIBUTES, field_bytes(key.len()) + field_bytes(value_bytes), log);
    put(KEY, key.as_bytes(), log);
    put_head(VALUE, value_bytes, log);
    encode_key(INT_VALUE, WireType::Varint, log);
    encode_varint(value, log);
}

/// Bytes of a field with so many bytes, whose number needs one byte.
fn field_bytes(bytes: usize) -> usize {
    1 + encoded_len_varint(bytes as u64) + bytes
}

/// Number and length of a field.
fn put_head(number: u32, bytes: usize, out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes as u64, out);
}

fn put(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_head(number, bytes.len(), out);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use bbq_spool::{Envelope, NameMark};
    use bbq_wire::batch::{BatchIdentity, BatchLimits, Detail, Output};
    use bbq_wire::{Batch, BatchBuilder, Compression, StreamId};
    use prost::Message as _;
    use serde_json::json;

    use super::super::messages::Logs;
    use super::super::shown::OtlpFields;
    use super::*;

    const RECEIVED_NS: u64 = 1_767_225_600_000_000_001;

    /// What is sent of messages that came together.
    fn sent(source: SourceKind, messages: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut builder = BatchBuilder::new();
        messages.iter().for_each(|message| builder.push(message));
        sent_of(source, builder)
    }

    fn sent_of(source: SourceKind, mut builder: BatchBuilder) -> Vec<Vec<u8>> {
        let records = builder.records() as usize;
        let identity = BatchIdentity {
            stream: StreamId([3; 16]),
            first_sequence: 41,
            base_time_ns: 0,
            source,
            compression: Compression::None,
        };
        let bytes = builder.finish(&identity).unwrap().to_vec();
        let mut scratch = Vec::new();
        let batch = Batch::verify(&bytes, BatchLimits::FORMAT, &mut scratch).unwrap();
        let peer = Peer::Inet(([192, 0, 2, 1], 514).into());
        let envelope = Envelope { source: 0, received_ns: RECEIVED_NS, peer, name_mark: NameMark::NOBODY };
        let (mut out, mut ends) = (Vec::new(), vec![0]);
        append(&Entry { lane: 0, source: "in", envelope, batch, parser: None }, &mut out, |end| {
            ends.push(end)
        });
        // All together are a request with as many records.
        assert_eq!(bbq_wire::otlp::records(&out).count(), records);
        ends.windows(2).map(|pair| out[pair[0]..pair[1]].to_vec()).collect()
    }

    fn shown(record: &[u8]) -> Json {
        serde_json::to_value(OtlpFields::of(record).unwrap()).unwrap()
    }

    #[test]
    fn a_line_has_its_origin() {
        let records = sent(SourceKind::Lines, &[b"one", b"\xfftwo", b""]);
        assert_eq!(
            shown(&records[0]),
            json!({
                "observed_timestamp": "2026-01-01T00:00:00.000000001Z",
                "body": "one",
                "attributes": {
                    "bbq.listener": "in", "bbq.stream": "03".repeat(16), "bbq.sequence": 41,
                    "network.peer.address": "192.0.2.1", "network.peer.port": 514,
                },
            })
        );
        let logs = Logs::decode(&*records[1]).unwrap();
        let body = logs.resource_logs[0].scope_logs[0].log_records[0].body.clone().unwrap();
        assert_eq!(body.value, Some(Value::Bytes(b"\xfftwo".to_vec())));
        assert_eq!(shown(&records[1])["attributes"]["bbq.sequence"], 42);
        assert_eq!(shown(&records[2])["body"], "");
    }

    #[test]
    fn the_fields_of_syslog_have_their_places() {
        let message = br#"<165>1 2026-10-11T22:14:15.003Z db3 app 12 ID47 [a@1 k="v" l="w"][b@1] hello"#;
        let records =
            sent(SourceKind::Syslog, &[message, b"<3>no header \xff", b"<34>Oct 11 22:14:15 h a[7]: x"]);
        let mut first = shown(&records[0]);
        for key in ["bbq.listener", "bbq.stream", "bbq.sequence", "network.peer.address", "network.peer.port"]
        {
            assert!(first["attributes"].as_object_mut().unwrap().remove(key).is_some(), "{key}");
        }
        assert_eq!(
            first,
            json!({
                "timestamp": "2026-10-11T22:14:15.003000000Z",
                "observed_timestamp": "2026-01-01T00:00:00.000000001Z",
                "severity": "notice", "severity_number": 10, "body": "hello",
                "attributes": {
                    "syslog.facility": "local4", "syslog.procid": "12", "syslog.msgid": "ID47",
                    "syslog.structured_data": {"a@1": {"k": "v", "l": "w"}, "b@1": {}},
                },
                "resource": {"host.name": "db3", "service.name": "app"},
            })
        );
        let second = shown(&records[1]);
        assert_eq!((&second["severity_number"], &second["severity"]), (&json!(17), &json!("err")));
        assert_eq!(shown(&records[2])["resource"], json!({"host.name": "h", "service.name": "a"}));
    }

    #[test]
    fn an_entry_of_a_journal_has_its_fields_and_those_of_syslog() {
        let mut builder = BatchBuilder::new();
        builder.push(b"hello");
        let fields = [("PRIORITY", "3"), ("SYSLOG_IDENTIFIER", "sshd"), ("_HOSTNAME", "web"), ("_PID", "7")];
        builder.set_record_fields(fields.into_iter());
        builder.set_detail(Detail { time_ns: 1_767_225_600_000_000_000, output: Output::Unknown });
        let record = shown(&sent_of(SourceKind::Lines, builder)[0]);
        assert_eq!((&record["body"], &record["severity"]), (&json!("hello"), &json!("err")));
        assert_eq!(record["timestamp"], "2026-01-01T00:00:00.000000000Z");
        assert_eq!(record["resource"], json!({"host.name": "web", "service.name": "sshd"}));
        assert_eq!(
            (&record["attributes"]["syslog.procid"], &record["attributes"]["PRIORITY"]),
            (&json!("7"), &json!("3"))
        );
    }

    #[test]
    fn every_severity_of_syslog_has_a_number() {
        for priority in 0..8 {
            let record = sent(SourceKind::Syslog, &[format!("<{priority}>x").as_bytes()]);
            assert!(shown(&record[0])["severity_number"].as_u64() > Some(0), "{priority}");
        }
    }

    #[test]
    fn a_log_record_goes_as_it_came_and_what_is_none_cannot_hide_others() {
        let record = b"\x0a\x06\x12\x04\x12\x02\x10\x09";
        let swallows = b"\x0a\x20short";
        let twice = [&record[..], record].concat();
        let records = sent(SourceKind::Otlp, &[record, swallows, &twice, b"text"]);
        assert_eq!(records[0], record);
        assert_eq!(shown(&records[1])["attributes"]["bbq.sequence"], 42);
        assert_eq!(shown(&records[3])["body"], "text");
    }
}
