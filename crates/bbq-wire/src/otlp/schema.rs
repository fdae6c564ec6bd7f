//! The messages of OTLP logs (opentelemetry-proto 1.10: logs/v1, common/v1, resource/v1) as tables: what a decoder checks in Protocol
//! Buffers, and the names of the JSON mapping.

use super::field::FieldValue;

/// The greatest number of a field here.
const NUMBER_MAX: usize = 12;

/// A message.
#[derive(Debug)]
pub struct Schema {
    by_number: [Option<FieldRule>; NUMBER_MAX + 1],
    /// Whether at most one of its fields is set.
    pub is_oneof: bool,
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub struct FieldRule {
    /// Its number.
    pub number: u32,
    /// Its name, in lower_snake_case.
    pub name: &'static str,
    /// Whether it may come several times.
    pub is_repeated: bool,
    /// What it has.
    pub kind: Kind,
}

/// What a field has.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `string`, which is UTF-8.
    Text,
    /// `bytes`, in JSON in base64.
    Bytes,
    /// `bytes`, in JSON of OTLP in hex digits.
    Id,
    /// `bool`.
    Bool,
    /// `int32`.
    Int32,
    /// `uint32`.
    Uint32,
    /// `fixed32`.
    Fixed32,
    /// `int64`.
    Int64,
    /// `fixed64`.
    Fixed64,
    /// `double`.
    Double,
    /// The enum `SeverityNumber`.
    Severity,
    /// A message.
    Message(&'static Schema),
}

impl Schema {
    const fn new(rules: &[FieldRule]) -> Schema {
        let mut by_number = [None; NUMBER_MAX + 1];
        let mut index = 0;
        while index < rules.len() {
            by_number[rules[index].number as usize] = Some(rules[index]);
            index += 1;
        }
        Schema { by_number, is_oneof: false }
    }

    /// The field with a number.
    #[must_use]
    #[inline]
    pub fn field(&self, number: u32) -> Option<&FieldRule> {
        self.by_number.get(number as usize)?.as_ref()
    }

    /// The field with a name in JSON: in lowerCamelCase or as it is in the definition (ProtoJSON takes both).
    #[must_use]
    pub fn field_named(&self, name: &[u8]) -> Option<&FieldRule> {
        self.by_number.iter().flatten().find(|rule| rule.name.as_bytes() == name || is_camel(rule.name, name))
    }
}

impl Kind {
    /// Whether a field has this wire type. Decoders take one that has another for unknown, or refuse the message (Rust's).
    pub(super) fn is_of(self, value: &FieldValue<'_>) -> bool {
        match self {
            Kind::Text | Kind::Bytes | Kind::Id | Kind::Message(_) => matches!(value, FieldValue::Bytes(_)),
            Kind::Bool | Kind::Int32 | Kind::Uint32 | Kind::Int64 | Kind::Severity => {
                matches!(value, FieldValue::Varint(_))
            }
            Kind::Fixed32 => matches!(value, FieldValue::Fixed32(_)),
            Kind::Fixed64 | Kind::Double => matches!(value, FieldValue::Fixed64(_)),
        }
    }
}

/// Whether `camel` is the lowerCamelCase of `snake`.
fn is_camel(snake: &str, camel: &[u8]) -> bool {
    let mut letters = camel.iter();
    let mut is_after_underscore = false;
    for letter in snake.bytes() {
        if letter == b'_' {
            is_after_underscore = true;
            continue;
        }
        let expected = if is_after_underscore { letter.to_ascii_uppercase() } else { letter };
        if letters.next() != Some(&expected) {
            return false;
        }
        is_after_underscore = false;
    }
    letters.next().is_none()
}

const fn one(number: u32, name: &'static str, kind: Kind) -> FieldRule {
    FieldRule { number, name, is_repeated: false, kind }
}

const fn many(number: u32, name: &'static str, kind: Kind) -> FieldRule {
    FieldRule { number, name, is_repeated: true, kind }
}

/// ExportLogsServiceRequest, and LogsData.
pub static REQUEST: Schema = Schema::new(&[many(1, "resource_logs", Kind::Message(&RESOURCE_LOGS))]);

/// ResourceLogs.
pub static RESOURCE_LOGS: Schema = Schema::new(&[
    one(1, "resource", Kind::Message(&RESOURCE)),
    many(2, "scope_logs", Kind::Message(&SCOPE_LOGS)),
    one(3, "schema_url", Kind::Text),
]);

static RESOURCE: Schema = Schema::new(&[
    many(1, "attributes", Kind::Message(&KEY_VALUE)),
    one(2, "dropped_attributes_count", Kind::Uint32),
    many(3, "entity_refs", Kind::Message(&ENTITY_REF)),
]);

static ENTITY_REF: Schema = Schema::new(&[
    one(1, "schema_url", Kind::Text),
    one(2, "type", Kind::Text),
    many(3, "id_keys", Kind::Text),
    many(4, "description_keys", Kind::Text),
]);

/// ScopeLogs.
pub static SCOPE_LOGS: Schema = Schema::new(&[
    one(1, "scope", Kind::Message(&SCOPE)),
    many(2, "log_records", Kind::Message(&LOG_RECORD)),
    one(3, "schema_url", Kind::Text),
]);

static SCOPE: Schema = Schema::new(&[
    one(1, "name", Kind::Text),
    one(2, "version", Kind::Text),
    many(3, "attributes", Kind::Message(&KEY_VALUE)),
    one(4, "dropped_attributes_count", Kind::Uint32),
]);

/// LogRecord.
pub static LOG_RECORD: Schema = Schema::new(&[
    one(1, "time_unix_nano", Kind::Fixed64),
    one(2, "severity_number", Kind::Severity),
    one(3, "severity_text", Kind::Text),
    one(5, "body", Kind::Message(&ANY_VALUE)),
    many(6, "attributes", Kind::Message(&KEY_VALUE)),
    one(7, "dropped_attributes_count", Kind::Uint32),
    one(8, "flags", Kind::Fixed32),
    one(9, "trace_id", Kind::Id),
    one(10, "span_id", Kind::Id),
    one(11, "observed_time_unix_nano", Kind::Fixed64),
    one(12, "event_name", Kind::Text),
]);

static KEY_VALUE: Schema = Schema::new(&[
    one(1, "key", Kind::Text),
    one(2, "value", Kind::Message(&ANY_VALUE)),
    one(3, "key_strindex", Kind::Int32),
]);

static ANY_VALUE: Schema = Schema {
    is_oneof: true,
    ..Schema::new(&[
        one(1, "string_value", Kind::Text),
        one(2, "bool_value", Kind::Bool),
        one(3, "int_value", Kind::Int64),
        one(4, "double_value", Kind::Double),
        one(5, "array_value", Kind::Message(&ARRAY_VALUE)),
        one(6, "kvlist_value", Kind::Message(&KEY_VALUE_LIST)),
        one(7, "bytes_value", Kind::Bytes),
        one(8, "string_value_strindex", Kind::Int32),
    ])
};

static ARRAY_VALUE: Schema = Schema::new(&[many(1, "values", Kind::Message(&ANY_VALUE))]);

static KEY_VALUE_LIST: Schema = Schema::new(&[many(1, "values", Kind::Message(&KEY_VALUE))]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_its_number_and_both_names() {
        assert_eq!(LOG_RECORD.field(11).unwrap().name, "observed_time_unix_nano");
        assert!(
            LOG_RECORD.field(0).is_none() && LOG_RECORD.field(4).is_none() && LOG_RECORD.field(99).is_none()
        );
        for name in ["observedTimeUnixNano", "observed_time_unix_nano"] {
            assert_eq!(LOG_RECORD.field_named(name.as_bytes()).unwrap().number, 11);
        }
        for name in [
            "",
            "observedTimeUnixNan",
            "observedTimeUnixNanos",
            "ObservedTimeUnixNano",
            "observedtimeunixnano",
        ] {
            assert!(LOG_RECORD.field_named(name.as_bytes()).is_none(), "{name}");
        }
    }
}
