//! What a sink shows of a record.

use bbq_wire::otlp::{LogBody, body};
use chrono::{DateTime, SecondsFormat};
use data_encoding::{BASE64, HEXLOWER};
use prost::Message as _;
use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::messages::{AnyValue, KeyValue, LogRecord, Logs, Scope, Value};

/// The fields of a log record in JSON, named as in its data model.
#[derive(Debug, Serialize)]
pub struct OtlpFields {
    /// When the event happened, according to the sender; RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_timestamp: Option<String>,
    /// The sender's word for it, or else the name of the number.
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    severity_number: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    event_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Json>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    attributes: Map<String, Json>,
    /// The attributes of the resource.
    #[serde(skip_serializing_if = "Map::is_empty")]
    resource: Map<String, Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<ScopeFields>,
    #[serde(skip_serializing_if = "String::is_empty")]
    trace_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    span_id: String,
    #[serde(skip_serializing_if = "is_zero")]
    flags: u32,
}

#[derive(Debug, Serialize)]
struct ScopeFields {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    attributes: Map<String, Json>,
}

impl OtlpFields {
    /// What corresponds to a field of syslog.
    pub(crate) fn label(&self, name: &str) -> Option<String> {
        let attribute = |key: &str| self.resource.get(key)?.as_str().map(str::to_owned);
        match name {
            "hostname" => attribute("host.name"),
            "appname" => attribute("service.name"),
            "severity" => self.severity.clone(),
            _ => None,
        }
    }

    /// The number of its severity; 0 if it has none.
    #[must_use]
    pub fn severity_number(&self) -> u32 {
        self.severity_number
    }

    /// The sender's word for its severity, or else the name of the number.
    #[must_use]
    pub fn severity(&self) -> Option<&str> {
        self.severity.as_deref()
    }

    /// The name of its event.
    #[must_use]
    pub fn event_name(&self) -> Option<&str> {
        Some(self.event_name.as_str()).filter(|name| !name.is_empty())
    }

    /// Its body.
    #[must_use]
    pub fn body(&self) -> Option<&Json> {
        self.body.as_ref()
    }

    /// Its attributes.
    #[must_use]
    pub fn attributes(&self) -> &Map<String, Json> {
        &self.attributes
    }

    /// The attributes of its resource.
    #[must_use]
    pub fn resource(&self) -> &Map<String, Json> {
        &self.resource
    }

    /// Decodes a record. Returns `None` if it has no log record: only a sender of batches can have written such a record.
    #[must_use]
    pub fn of(record: &[u8]) -> Option<OtlpFields> {
        let resource_logs = Logs::decode(record).ok()?.resource_logs.into_iter().next()?;
        let scope_logs = resource_logs.scope_logs.into_iter().next()?;
        let log: LogRecord = scope_logs.log_records.into_iter().next()?;
        let number = u32::try_from(log.severity_number).unwrap_or(0);
        let text = Some(log.severity_text).filter(|text| !text.is_empty());
        Some(OtlpFields {
            timestamp: time(log.time_unix_nano),
            observed_timestamp: time(log.observed_time_unix_nano),
            severity: text.or_else(|| severity_name(number)),
            severity_number: number,
            event_name: log.event_name,
            body: log.body.and_then(|body| body.value).map(json),
            attributes: map(log.attributes),
            resource: resource_logs.resource.map(|resource| map(resource.attributes)).unwrap_or_default(),
            scope: scope_logs.scope.filter(|scope| *scope != Scope::default()).map(|scope| ScopeFields {
                name: scope.name,
                version: scope.version,
                attributes: map(scope.attributes),
            }),
            trace_id: HEXLOWER.encode(&log.trace_id),
            span_id: HEXLOWER.encode(&log.span_id),
            flags: log.flags,
        })
    }
}

/// Appends the body of a record: a text as it is, another value in JSON. Anything that is not a record is appended unchanged.
pub fn put_body(record: &[u8], out: &mut Vec<u8>) {
    match body(record) {
        Ok(LogBody::Text(text)) => out.extend_from_slice(text),
        Ok(LogBody::Absent) => {}
        Ok(LogBody::Other) => match OtlpFields::of(record).map(|fields| fields.body) {
            // Texts and numbers always serialize, and a Vec takes every byte.
            Some(Some(value)) => drop(serde_json::to_writer(out, &value)),
            Some(None) => {}
            None => out.extend_from_slice(record),
        },
        Err(_) => out.extend_from_slice(record),
    }
}

/// The severity of a record as syslog has it, from 0 to 7.
#[must_use]
pub fn severity_of(record: &[u8]) -> Option<u8> {
    syslog_severity(OtlpFields::of(record)?.severity_number)
}

/// The severity of syslog, from 0 to 7, for the number of a severity.
#[must_use]
pub fn syslog_severity(number: u32) -> Option<u8> {
    match number {
        0 => None,
        1..=8 => Some(7),
        9..=12 => Some(6),
        13..=16 => Some(4),
        17..=20 => Some(3),
        _ => Some(2),
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn time(unix_ns: u64) -> Option<String> {
    let time = i64::try_from(unix_ns).ok().filter(|time| *time > 0)?;
    Some(DateTime::from_timestamp_nanos(time).to_rfc3339_opts(SecondsFormat::Nanos, true))
}

/// TRACE, TRACE2, TRACE3, TRACE4, DEBUG, ... FATAL4 for 1 to 24.
fn severity_name(number: u32) -> Option<String> {
    const NAMES: [&str; 6] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];
    let place = number.checked_sub(1)?;
    let name = NAMES.get((place / 4) as usize)?;
    Some(if place % 4 == 0 { (*name).to_owned() } else { format!("{name}{}", place % 4 + 1) })
}

fn map(pairs: Vec<KeyValue>) -> Map<String, Json> {
    let value = |value: Option<AnyValue>| value.and_then(|value| value.value).map_or(Json::Null, json);
    pairs.into_iter().map(|pair| (pair.key, value(pair.value))).collect()
}

/// The depth of values is limited by the decoder.
fn json(value: Value) -> Json {
    match value {
        Value::Text(text) => Json::String(text),
        Value::Bool(bool) => Json::Bool(bool),
        Value::Int(int) => Json::from(int),
        // JSON has no numbers for infinity and NaN.
        Value::Double(double) if !double.is_finite() => Json::String(double.to_string()),
        Value::Double(double) => Json::from(double),
        Value::Array(array) => {
            array.values.into_iter().map(|value| value.value.map_or(Json::Null, json)).collect()
        }
        Value::Map(pairs) => Json::Object(map(pairs.values)),
        Value::Bytes(bytes) => Json::String(BASE64.encode(&bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::from_json::from_json;
    use super::*;

    fn record(log: &str) -> Vec<u8> {
        let request = format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{log}]}}]}}]}}"#);
        from_json(request.as_bytes()).unwrap().request
    }

    fn raw(log: &str) -> String {
        let mut out = Vec::new();
        put_body(&record(log), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn raw_is_the_body() {
        assert_eq!(raw(r#"{"body":{"stringValue":"a text"}}"#), "a text");
        assert_eq!(raw(r#"{"body":{"intValue":"7"}}"#), "7");
        assert_eq!(raw(r#"{"body":{"doubleValue":"NaN"}}"#), "\"NaN\"");
        let map =
            r#"{"body":{"kvlistValue":{"values":[{"key":"a","value":{"boolValue":true}},{"key":"b"}]}}}"#;
        assert_eq!(raw(map), r#"{"a":true,"b":null}"#);
        assert_eq!(raw("{}"), "");
        assert_eq!(raw(r#"{"body":{}}"#), "");
        let mut out = Vec::new();
        put_body(b"no record", &mut out);
        assert_eq!(out, b"no record");
    }

    #[test]
    fn a_severity_has_a_name() {
        let severity = |log: &str| OtlpFields::of(&record(log)).unwrap().severity;
        assert_eq!(severity(r#"{"severityNumber":9}"#).as_deref(), Some("INFO"));
        assert_eq!(severity(r#"{"severityNumber":24}"#).as_deref(), Some("FATAL4"));
        assert_eq!(severity(r#"{"severityNumber":9,"severityText":"Note"}"#).as_deref(), Some("Note"));
        assert_eq!(severity(r#"{"severityNumber":99}"#), None);
        assert_eq!(severity(r#"{"severityNumber":-1}"#), None);
    }

    #[test]
    fn values_that_nest_without_end_are_no_record() {
        // AnyValue 5 array, ArrayValue 1 value: 20,000 levels, as deep as 200 kB can be.
        let mut value = Vec::new();
        for level in 0..20_000 {
            let mut outer = Vec::new();
            prost::encoding::bytes::encode(if level % 2 == 0 { 1 } else { 5 }, &value, &mut outer);
            value = outer;
            if value.len() > 100_000 {
                break;
            }
        }
        let mut inner = Vec::new();
        prost::encoding::bytes::encode(5, &value, &mut inner);
        for number in [2, 2, 1] {
            let mut outer = Vec::new();
            prost::encoding::bytes::encode(number, &inner, &mut outer);
            inner = outer;
        }
        assert!(OtlpFields::of(&inner).is_none());
    }
}
