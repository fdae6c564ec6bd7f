//! Converts a request in the JSON mapping of OTLP to one in Protocol Buffers: ProtoJSON (protobuf.dev/programming-guides/json), but ids
//! in hex (opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding"). A field has its name in lowerCamelCase or that of the definition,
//! null is its default, and unknown fields are left out. What is not UTF-8 becomes U+FFFD.
//!
//! The converter is driven by the tables of `bbq_wire::otlp::schema`, and decodes nothing: each value is written as it is read. Crates
//! that read ProtoJSON (pbjson, prost-reflect) refuse a whole request for one byte that is not UTF-8, and know no ids in hex.

use std::borrow::Cow;
use std::fmt;

use bbq_wire::otlp::NESTING_MAX;
use bbq_wire::otlp::schema::{FieldRule, Kind, REQUEST, Schema};
use prost::encoding::{WireType, encode_key, encode_varint};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::scalars::put_scalar;

/// The longest request in JSON: decoding it keeps the worker from other work for some 10 ms. Busy senders use Protocol Buffers.
pub const JSON_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of `\ud83d`.
const ESCAPE_BYTES: usize = 6;
/// Request, ResourceLogs and ScopeLogs are less deep than this.
const RECORD_DEPTH: u32 = 3;

/// A request in Protocol Buffers.
#[derive(Debug)]
pub struct Converted {
    /// An ExportLogsServiceRequest.
    pub request: Vec<u8>,
    /// Whether a field around log records has a name that no request of logs has.
    pub has_unknown: bool,
}

/// Converts a request in JSON to one in Protocol Buffers.
///
/// # Errors
/// What is wrong, and where.
pub fn from_json(request: &[u8]) -> Result<Converted, serde_json::Error> {
    let mut out = Converted { request: Vec::with_capacity(request.len() / 2), has_unknown: false };
    let request = repaired(request);
    let mut from = serde_json::Deserializer::from_str(&request);
    // It counts arrays and objects, and refuses what is less deep than `NESTING_MAX` messages.
    from.disable_recursion_limit();
    MessageSeed { schema: &REQUEST, depth: 0, out: &mut out }.deserialize(&mut from)?;
    from.end()?;
    Ok(out)
}

/// The text of a request. One byte that is not UTF-8, or half a surrogate pair, would cost all records of the request.
fn repaired(request: &[u8]) -> Cow<'_, str> {
    let mut text = String::from_utf8_lossy(request);
    let mut at = 0;
    while let Some(found) =
        text.as_bytes().get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\'))
    {
        let escape = at + found;
        let half = surrogate(&text, escape);
        let is_first = matches!(half, Some(0xd800..=0xdbff));
        at = escape + if half.is_some() { ESCAPE_BYTES } else { 2 };
        if is_first && matches!(surrogate(&text, at), Some(0xdc00..=0xdfff)) {
            at += ESCAPE_BYTES;
        } else if half.is_some() {
            text.to_mut().replace_range(escape..at, "\\ufffd");
        }
    }
    text
}

/// Half a surrogate pair, if this is its escape sequence.
fn surrogate(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + ESCAPE_BYTES)?.strip_prefix("\\u")?;
    u32::from_str_radix(digits, 16).ok().filter(|code| (0xd800..0xe000).contains(code))
}

/// Appends the fields of an object.
struct MessageSeed<'a> {
    schema: &'static Schema,
    depth: u32,
    out: &'a mut Converted,
}

impl<'de> DeserializeSeed<'de> for MessageSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        if self.depth > NESTING_MAX {
            return Err(D::Error::custom(format_args!(
                "its values are nested more than {NESTING_MAX} messages deep"
            )));
        }
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MessageSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen: u32 = 0;
        let mut is_set = false;
        while let Some(rule) = map.next_key_seed(NameSeed(self.schema))? {
            let Some(rule) = rule else {
                self.out.has_unknown |= self.depth < RECORD_DEPTH;
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let bit = 1 << rule.number;
            if seen & bit != 0 {
                return Err(A::Error::duplicate_field(rule.name));
            }
            seen |= bit;
            let is_oneof = self.schema.is_oneof;
            let has_value =
                map.next_value_seed(FieldSeed { rule, is_oneof, depth: self.depth, out: &mut *self.out })?;
            if is_oneof && has_value && std::mem::replace(&mut is_set, true) {
                return Err(A::Error::custom("a value has several of stringValue, intValue and so on"));
            }
        }
        Ok(())
    }
}

/// Finds a field by its name.
struct NameSeed(&'static Schema);

impl<'de> DeserializeSeed<'de> for NameSeed {
    type Value = Option<&'static FieldRule>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for NameSeed {
    type Value = Option<&'static FieldRule>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.field_named(name.as_bytes()))
    }
}

/// Appends a field with one or all of its values. Returns whether it is not null.
struct FieldSeed<'a> {
    rule: &'static FieldRule,
    /// Of the value of an AnyValue, a default value counts.
    is_oneof: bool,
    /// Of the message that has the field.
    depth: u32,
    out: &'a mut Converted,
}

impl FieldSeed<'_> {
    /// Appends one value.
    fn put<'de, D: Deserializer<'de>>(&mut self, from: D) -> Result<(), D::Error> {
        let Kind::Message(schema) = self.rule.kind else {
            let is_kept = self.is_oneof || self.rule.is_repeated;
            return put_scalar(from, self.rule, is_kept, &mut self.out.request);
        };
        let before = std::mem::take(&mut self.out.request);
        MessageSeed { schema, depth: self.depth + 1, out: &mut *self.out }.deserialize(from)?;
        let inner = std::mem::replace(&mut self.out.request, before);
        encode_key(self.rule.number, WireType::LengthDelimited, &mut self.out.request);
        encode_varint(inner.len() as u64, &mut self.out.request);
        self.out.request.extend_from_slice(&inner);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for FieldSeed<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value for {}", self.rule.name)
    }

    fn visit_none<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_some<D: Deserializer<'de>>(mut self, from: D) -> Result<bool, D::Error> {
        if self.rule.is_repeated { from.deserialize_seq(self) } else { self.put(from).map(|()| true) }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<bool, A::Error> {
        while elements.next_element_seed(ElementSeed(&mut self))?.is_some() {}
        Ok(true)
    }
}

/// Appends one of several values.
struct ElementSeed<'a, 'b>(&'a mut FieldSeed<'b>);

impl<'de> DeserializeSeed<'de> for ElementSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        self.0.put(from)
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::super::messages::{AnyValue, ArrayValue, LogRecord, Logs, Value};
    use super::*;

    #[test]
    fn every_field_of_the_json_mapping_is_kept() {
        let request = r#"{"later": 1, "resourceLogs": [{
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
            "scopeLogs": [{
                "scope": {"name": "orders", "version": "2"},
                "logRecords": [{
                    "timeUnixNano": "1767225600000000001", "observedTimeUnixNano": 5,
                    "severityNumber": 9, "severityText": "INFO",
                    "body": {"kvlistValue": {"values": [
                        {"key": "i", "value": {"intValue": "-7"}}, {"key": "d", "value": {"doubleValue": 0.5}},
                        {"key": "b", "value": {"boolValue": true}}, {"key": "x", "value": {"bytesValue": "AQI="}},
                        {"key": "a", "value": {"arrayValue": {"values": [{"intValue": 1}, {}]}}}, {"key": "none"}
                    ]}},
                    "attributes": [{"key": "k", "value": {"stringValue": "v"}}], "droppedAttributesCount": 1,
                    "flags": 1, "traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "eee19b7ec3c1b174",
                    "eventName": "sold"
                }], "schemaUrl": "scope"
            }], "schemaUrl": "resource"
        }]}"#;
        let logs = Logs::decode(&*from_json(request.as_bytes()).unwrap().request).unwrap();
        let scope_logs = &logs.resource_logs[0].scope_logs[0];
        assert_eq!(logs.resource_logs[0].resource.as_ref().unwrap().attributes[0].key, "service.name");
        assert_eq!(scope_logs.scope.as_ref().unwrap().name, "orders");
        let record = &scope_logs.log_records[0];
        assert_eq!(record.time_unix_nano, 1_767_225_600_000_000_001);
        assert_eq!((record.observed_time_unix_nano, record.severity_number), (5, 9));
        assert_eq!((record.trace_id[0], record.span_id[0], record.flags), (0x5b, 0xee, 1));
        assert_eq!((&*record.event_name, record.dropped_attributes_count), ("sold", 1));
        let Some(AnyValue { value: Some(Value::Map(map)) }) = &record.body else { panic!("a map") };
        let values: Vec<_> =
            map.values.iter().map(|pair| pair.value.as_ref().and_then(|value| value.value.clone())).collect();
        let array = [AnyValue { value: Some(Value::Int(1)) }, AnyValue { value: None }];
        let expected = [
            Some(Value::Int(-7)),
            Some(Value::Double(0.5)),
            Some(Value::Bool(true)),
            Some(Value::Bytes(vec![1, 2])),
            Some(Value::Array(ArrayValue { values: array.to_vec() })),
            None,
        ];
        assert_eq!(values, expected);
    }

    fn request(record: &str) -> String {
        format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{record}]}}]}}]}}"#)
    }

    /// The record of a request in which everything else is the same.
    fn read(record: &str) -> LogRecord {
        let converted =
            from_json(request(record).as_bytes()).unwrap_or_else(|error| panic!("{record}: {error}"));
        let logs = Logs::decode(&*converted.request).unwrap();
        logs.resource_logs[0].scope_logs[0].log_records[0].clone()
    }

    #[test]
    fn names_of_the_definition_and_null_are_taken() {
        let snake = r#"{"resource_logs":[{"scope_logs":[{"log_records":[{"severity_text":"x","body":{"string_value":"y"}}]}],
            "resource":null,"schema_url":null}]}"#;
        let converted = from_json(snake.as_bytes()).unwrap();
        assert!(!converted.has_unknown);
        let record =
            Logs::decode(&*converted.request).unwrap().resource_logs[0].scope_logs[0].log_records[0].clone();
        assert_eq!(record, read(r#"{"severityText":"x","body":{"stringValue":"y"}}"#));
        let nulls = r#"{"timeUnixNano":null,"severityNumber":null,"severityText":null,"body":null,"attributes":null,"traceId":null,"flags":null}"#;
        assert_eq!(read(nulls), LogRecord::default());
        assert_eq!(
            read(r#"{"body":{"stringValue":null,"intValue":0}}"#).body.unwrap().value,
            Some(Value::Int(0))
        );
    }

    #[test]
    fn numbers_texts_and_bytes_come_in_every_form() {
        let value = |json: &str| read(&format!(r#"{{"body":{{{json}}}}}"#)).body.unwrap().value.unwrap();
        for bytes in ["AAEC/w==", "AAEC/w", "AAEC_w==", "AAEC_w"] {
            assert_eq!(value(&format!(r#""bytesValue":"{bytes}""#)), Value::Bytes(vec![0, 1, 2, 0xff]));
        }
        assert_eq!(value(r#""intValue":1e3"#), Value::Int(1000));
        assert_eq!(value(r#""intValue":"-9223372036854775808""#), Value::Int(i64::MIN));
        assert_eq!(value(r#""doubleValue":"-Infinity""#), Value::Double(f64::NEG_INFINITY));
        assert_eq!(value(r#""doubleValue":7"#), Value::Double(7.0));
        assert_eq!(value(r#""stringValue":"""#), Value::Text(String::new()));
        assert_eq!(
            value(r#""stringValue":"a\ud83d b \ud83d\ude00""#),
            Value::Text("a\u{fffd} b \u{1f600}".to_owned())
        );
        assert_eq!(read(r#"{"severityNumber":"SEVERITY_NUMBER_WARN2"}"#).severity_number, 14);
        let raw = request(r#"{"body":{"stringValue":"caf?"}}"#).replace('?', "\u{1}");
        let raw: Vec<u8> = raw.bytes().map(|byte| if byte == 1 { 0xe9 } else { byte }).collect();
        let logs = Logs::decode(&*from_json(&raw).unwrap().request).unwrap();
        let body = logs.resource_logs[0].scope_logs[0].log_records[0].body.clone().unwrap();
        assert_eq!(body.value, Some(Value::Text("caf\u{fffd}".to_owned())));
    }

    #[test]
    fn halves_of_pairs_alone_are_replaced() {
        for (text, right) in [
            (r"\ud83d\ude00", r"\ud83d\ude00"),
            (r"\ud83d\ud83d\ude00\ude00", r"\ufffd\ud83d\ude00\ufffd"),
            (r"\\ud83d \u00e9 \ud83", r"\\ud83d \u00e9 \ud83"),
            (r"\uD83D", r"\ufffd"),
            ("\\u\u{e9}\u{e9}\\", "\\u\u{e9}\u{e9}\\"),
        ] {
            assert_eq!(repaired(text.as_bytes()), right);
        }
        assert_eq!(repaired(b"caf\xe9"), "caf\u{fffd}");
    }

    #[test]
    fn names_that_no_request_has_are_left_out_and_told_around_records() {
        let converted = |text: &str| from_json(text.as_bytes()).unwrap();
        assert_eq!(read(r#"{"later":[[{"a":{"b":1}}]],"body":{"later":1}}"#).body, Some(AnyValue::default()));
        assert!(!converted(&request(r#"{"later":1}"#)).has_unknown);
        for unknown in [r#"{"resourceLog":[]}"#, r#"{"resourceLogs":[{"logs":1}]}"#] {
            let converted = converted(unknown);
            assert!(converted.has_unknown, "{unknown}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let deep = |levels: usize| {
            let (open, close) = (r#"{"arrayValue":{"values":["#, "]}}");
            request(&format!(r#"{{"body":{}{{}}{}}}"#, open.repeat(levels), close.repeat(levels)))
        };
        // The body is 4 messages deep, and each level has 2.
        assert!(from_json(deep(48).as_bytes()).is_ok());
        for wrong in [
            "text".to_owned(),
            "[[[{}]]]".to_owned(),
            request("[]"),
            request("7"),
            request("null"),
            request(r#"[0,9,"x"]"#),
            request(r#"{"traceId":"xy"}"#),
            request(r#"{"timeUnixNano":"now"}"#),
            request(r#"{"timeUnixNano":-1}"#),
            request(r#"{"flags":4294967296}"#),
            request(r#"{"severityNumber":true}"#),
            request(r#"{"body":{"bytesValue":"?"}}"#),
            request("{\"body\":{\"stringValue\":\"\n\"}}"),
            request(r#"{"body":{"boolValue":"true"}}"#),
            request(r#"{"body":{"intValue":0.5}}"#),
            request(r#"{"body":{"arrayValue":{"values":[null]}}}"#),
            request(r#"{"body":{"intValue":1,"stringValue":"x"}}"#),
            request(r#"{"body":{},"body":{}}"#),
            format!("{} x", request("{}")),
            deep(49),
            deep(100_000),
        ] {
            assert!(from_json(wrong.as_bytes()).is_err(), "{wrong:.200}");
        }
    }
}
