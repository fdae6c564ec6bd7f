//! Converts a request in the JSON mapping of OTLP to one in Protocol Buffers: names in lowerCamelCase, trace and span ids in hex,
//! 64-bit numbers as text or number, bytes in base64. Unknown fields are left out.
//!
//! Invariant: at most one log record is decoded at a time, because a decoded record takes many times the memory of its text.

use prost::encoding::{bytes, message, string};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;

use super::messages::{LogRecord, Resource, Scope};

/// The longest request in JSON: decoding it keeps the worker from other work for some 10 ms. Busy senders use Protocol Buffers.
pub(crate) const JSON_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct LogsJson<'a> {
    #[serde(borrow)]
    resource_logs: Vec<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ResourceLogsJson<'a> {
    resource: Option<Resource>,
    #[serde(borrow)]
    scope_logs: Vec<&'a RawValue>,
    schema_url: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ScopeLogsJson<'a> {
    scope: Option<Scope>,
    #[serde(borrow)]
    log_records: Vec<&'a RawValue>,
    schema_url: String,
}

/// Converts a request in JSON to one in Protocol Buffers. A log record, resource or scope whose text is longer than
/// `text_bytes_max` is an error.
///
/// # Errors
/// What is wrong, and where.
pub(crate) fn from_json(request: &[u8], text_bytes_max: usize) -> Result<Vec<u8>, serde_json::Error> {
    let logs: LogsJson<'_> = serde_json::from_slice(request)?;
    let mut out = Vec::new();
    for resource_logs in logs.resource_logs {
        let resource_logs = resource_logs.get();
        let ResourceLogsJson { resource, scope_logs, schema_url } = serde_json::from_str(resource_logs)?;
        let inner: usize = scope_logs.iter().map(|text| text.get().len()).sum();
        check(resource_logs.len() - inner, text_bytes_max)?;
        let mut resource_out = Vec::new();
        if let Some(resource) = resource {
            message::encode(1, &resource, &mut resource_out);
        }
        for scope_logs in scope_logs {
            let scope_out = scope_logs_of(scope_logs.get(), text_bytes_max)?;
            bytes::encode(2, &scope_out, &mut resource_out);
        }
        if !schema_url.is_empty() {
            string::encode(3, &schema_url, &mut resource_out);
        }
        bytes::encode(1, &resource_out, &mut out);
    }
    Ok(out)
}

fn scope_logs_of(text: &str, text_bytes_max: usize) -> Result<Vec<u8>, serde_json::Error> {
    let ScopeLogsJson { scope, log_records, schema_url } = serde_json::from_str(text)?;
    let inner: usize = log_records.iter().map(|text| text.get().len()).sum();
    check(text.len() - inner, text_bytes_max)?;
    let mut out = Vec::new();
    if let Some(scope) = scope {
        message::encode(1, &scope, &mut out);
    }
    for log_record in log_records {
        check(log_record.get().len(), text_bytes_max)?;
        let log_record: LogRecord = serde_json::from_str(log_record.get())?;
        message::encode(2, &log_record, &mut out);
    }
    if !schema_url.is_empty() {
        string::encode(3, &schema_url, &mut out);
    }
    Ok(out)
}

fn check(text_bytes: usize, text_bytes_max: usize) -> Result<(), serde_json::Error> {
    if text_bytes <= text_bytes_max {
        return Ok(());
    }
    Err(serde_json::Error::custom(format!(
        "a log record, resource or scope is longer than {text_bytes_max} bytes (message_bytes_max)"
    )))
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::super::messages::{AnyValue, ArrayValue, Logs, Value};
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
        let logs = Logs::decode(&*from_json(request.as_bytes(), 10_000).unwrap()).unwrap();
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

    #[test]
    fn what_is_no_request_is_refused() {
        let record =
            |record: &str| format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{record}]}}]}}]}}"#);
        assert!(from_json(record("{}").as_bytes(), 100).is_ok());
        for wrong in [
            "text".to_owned(),
            record("7"),
            record(r#"{"traceId":"xy"}"#),
            record(r#"{"timeUnixNano":"now"}"#),
            record(r#"{"body":{"bytesValue":"?"}}"#),
            record(&format!(r#"{{"severityText":"{}"}}"#, "x".repeat(100))),
        ] {
            assert!(from_json(wrong.as_bytes(), 100).is_err(), "{wrong}");
        }
        // Deeper than any sender nests: the request is refused, and the stack does not overflow.
        let deep = format!("{}{}", r#"{"arrayValue":{"values":["#.repeat(10_000), "]}}".repeat(10_000));
        assert!(from_json(record(&format!(r#"{{"body":{deep}}}"#)).as_bytes(), 1_000_000).is_err());
    }
}
