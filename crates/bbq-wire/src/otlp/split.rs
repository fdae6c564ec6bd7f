//! Cuts a request into records, each with its resource and scope, and finds the body of a record.

use super::check::{check, check_value, put_repaired};
use super::field::{Field, FieldValue, Malformed, fields, fields_within};
use super::schema::{self, Schema};
use super::tags::{LOG_RECORDS, RESOURCE_LOGS, SCOPE_LOGS, nested_bytes, put_nested};

/// Of a log record.
const BODY: u32 = 5;
/// Of an AnyValue.
const STRING_VALUE: u32 = 1;

/// What a request may become.
#[derive(Clone, Copy, Debug)]
pub struct SplitLimits {
    /// The longest record; a longer one is left out and counted.
    pub record_bytes_max: usize,
    /// All records together, as each repeats its resource and scope.
    pub bytes_max: usize,
}

/// What a request has become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Records in the output.
    pub records: u32,
    /// Log records that would have made too long a record.
    pub too_long: u32,
    /// Whether it has fields, on the three levels around log records, that no request of logs has: it may be something else.
    pub has_unknown: bool,
}

/// Why a request was not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// It is no request.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// All records together, each with its resource and scope, would be longer than this.
    #[error("the log records, each with its resource and scope, are longer than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: usize,
    },
}

/// Appends the records of a request to `out`. [`records`] finds them there. Everything in it is what a decoder takes: what none would
/// take is an error, but a text that is not UTF-8, which gets U+FFFD.
///
/// # Errors
/// Why the request was not cut; `out` is of no use then.
pub fn split(request: &[u8], limits: SplitLimits, out: &mut Vec<u8>) -> Result<Split, SplitError> {
    let mut splitter = Splitter {
        limits,
        out,
        of_resource: Vec::new(),
        of_scope: Vec::new(),
        repaired: Vec::new(),
        split: Split::default(),
    };
    for field in fields(request) {
        match field? {
            Field { number: RESOURCE_LOGS, value: FieldValue::Bytes(value), .. } => {
                splitter.resource_logs(value)?
            }
            _ => splitter.split.has_unknown = true,
        }
    }
    Ok(splitter.split)
}

struct Splitter<'a> {
    limits: SplitLimits,
    out: &'a mut Vec<u8>,
    /// The fields of the present ResourceLogs that are no scope_logs.
    of_resource: Vec<u8>,
    /// The fields of the present ScopeLogs that are no log_records.
    of_scope: Vec<u8>,
    /// A log record whose texts were not UTF-8.
    repaired: Vec<u8>,
    split: Split,
}

impl Splitter<'_> {
    fn resource_logs(&mut self, resource_logs: &[u8]) -> Result<(), SplitError> {
        self.of_resource.clear();
        self.split.has_unknown |=
            put_others(resource_logs, 1, &schema::RESOURCE_LOGS, SCOPE_LOGS, &mut self.of_resource)?;
        for field in fields_within(resource_logs, 1) {
            if let Field { number: SCOPE_LOGS, value: FieldValue::Bytes(value), .. } = field? {
                self.scope_logs(value)?;
            }
        }
        Ok(())
    }

    fn scope_logs(&mut self, scope_logs: &[u8]) -> Result<(), SplitError> {
        self.of_scope.clear();
        self.split.has_unknown |=
            put_others(scope_logs, 2, &schema::SCOPE_LOGS, LOG_RECORDS, &mut self.of_scope)?;
        for field in fields_within(scope_logs, 2) {
            let field = field?;
            let (LOG_RECORDS, FieldValue::Bytes(record)) = (field.number, field.value) else { continue };
            if check(record, &schema::LOG_RECORD, 3)? {
                self.put(field.bytes)?;
            } else if let Some(rule) = schema::SCOPE_LOGS.field(LOG_RECORDS) {
                let mut repaired = std::mem::take(&mut self.repaired);
                repaired.clear();
                put_repaired(record, rule, &mut repaired);
                self.put(&repaired)?;
                self.repaired = repaired;
            }
        }
        Ok(())
    }

    /// Puts a log record, with its tag and length, into the output.
    fn put(&mut self, record: &[u8]) -> Result<(), SplitError> {
        let scope_bytes = self.of_scope.len() + record.len();
        let resource_bytes = self.of_resource.len() + nested_bytes(scope_bytes);
        let bytes = nested_bytes(resource_bytes);
        if bytes > self.limits.record_bytes_max {
            self.split.too_long += 1;
            return Ok(());
        }
        if bytes > self.limits.bytes_max - self.out.len().min(self.limits.bytes_max) {
            return Err(SplitError::TooLarge { bytes_max: self.limits.bytes_max });
        }
        put_nested(RESOURCE_LOGS, resource_bytes, self.out);
        self.out.extend_from_slice(&self.of_resource);
        put_nested(SCOPE_LOGS, scope_bytes, self.out);
        self.out.extend_from_slice(&self.of_scope);
        self.out.extend_from_slice(record);
        self.split.records += 1;
        Ok(())
    }
}

/// Appends all fields of a message but the messages with this number. Returns whether some of the others are unknown.
fn put_others(
    of: &[u8],
    depth: u32,
    schema: &Schema,
    number: u32,
    out: &mut Vec<u8>,
) -> Result<bool, Malformed> {
    let mut has_unknown = false;
    for field in fields_within(of, depth) {
        let field = field?;
        match (field.value, schema.field(field.number)) {
            (FieldValue::Bytes(_), _) if field.number == number => {}
            (value, Some(rule)) if !rule.kind.is_of(&value) => has_unknown = true,
            (FieldValue::Bytes(value), Some(rule)) if !check_value(value, rule, depth)? => {
                put_repaired(value, rule, out);
            }
            (_, rule) => {
                has_unknown |= rule.is_none();
                out.extend_from_slice(field.bytes);
            }
        }
    }
    Ok(has_unknown)
}

/// The records in the output of [`split`].
pub fn records(split: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    fields(split).map_while(|field| field.ok().map(|field| field.bytes))
}

/// The body of a log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogBody<'a> {
    /// A text. It should be UTF-8, and is not checked.
    Text(&'a [u8]),
    /// Another value.
    Other,
    /// None.
    Absent,
}

/// Finds the body of the log record in a record. As in Protocol Buffers, of several the last one counts.
///
/// # Errors
/// It is no record.
pub fn body(record: &[u8]) -> Result<LogBody<'_>, Malformed> {
    let mut inner = record;
    for number in [RESOURCE_LOGS, SCOPE_LOGS, LOG_RECORDS] {
        inner = last_message(inner, number)?.ok_or(Malformed::Bytes)?;
    }
    let mut body = LogBody::Absent;
    for field in fields(inner) {
        let Field { number: BODY, value: FieldValue::Bytes(value), .. } = field? else { continue };
        for field in fields(value) {
            body = match field? {
                Field { number: STRING_VALUE, value: FieldValue::Bytes(text), .. } => LogBody::Text(text),
                _ => LogBody::Other,
            };
        }
    }
    Ok(body)
}

/// The last of the messages with this number.
fn last_message(of: &[u8], number: u32) -> Result<Option<&[u8]>, Malformed> {
    let mut last = None;
    for field in fields(of) {
        let field = field?;
        if field.number == number
            && let FieldValue::Bytes(message) = field.value
        {
            last = Some(message);
        }
    }
    Ok(last)
}

/// Whether this is one record as [`split`] makes them, so that a decoder takes it, also with others around it.
#[must_use]
pub fn is_record(record: &[u8]) -> bool {
    let is_one_field = matches!(fields(record).next(), Some(Ok(field)) if field.bytes.len() == record.len());
    is_one_field
        && only_message(record, RESOURCE_LOGS)
            .and_then(|resource_logs| only_message(resource_logs, SCOPE_LOGS))
            .and_then(|scope_logs| only_message(scope_logs, LOG_RECORDS))
            .is_some()
        && check(record, &schema::REQUEST, 0) == Ok(true)
}

/// The message with this number, if there is exactly one.
fn only_message(of: &[u8], number: u32) -> Option<&[u8]> {
    let mut only = None;
    for field in fields(of) {
        let field = field.ok()?;
        if field.number == number
            && let FieldValue::Bytes(message) = field.value
            && only.replace(message).is_some()
        {
            return None;
        }
    }
    only
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SplitLimits = SplitLimits { record_bytes_max: 1000, bytes_max: 1 << 20 };

    fn nested(number: u32, inner: &[&[u8]]) -> Vec<u8> {
        let inner = inner.concat();
        let mut out = Vec::new();
        put_nested(number, inner.len(), &mut out);
        [out, inner].concat()
    }

    fn record(text: &str) -> Vec<u8> {
        nested(2, &[&[0x10, 9], &nested(5, &[&nested(1, &[text.as_bytes()])])])
    }

    fn split_all(request: &[u8], limits: SplitLimits) -> Result<(Split, Vec<Vec<u8>>), SplitError> {
        let mut out = Vec::new();
        let found = split(request, limits, &mut out)?;
        let all: Vec<Vec<u8>> = records(&out).map(<[u8]>::to_vec).collect();
        assert_eq!(all.len(), found.records as usize);
        Ok((found, all))
    }

    #[test]
    fn each_log_record_becomes_a_request_with_what_is_around_it() {
        let (resource, scope) = (nested(1, &[b"\x10\x05"]), nested(1, &[b"\x0a\x02sc"]));
        let (url, later) = (nested(3, &[b"url"]), [0x78, 1]);
        let (one, two, three) = (record("one"), record("two"), record("three"));
        // The fields around the records come in any order.
        let request = [
            nested(1, &[&nested(2, &[&scope, &one, &url, &two]), &resource, &later, &nested(2, &[&three])]),
            nested(1, &[&resource]),
            nested(9, &[b"later"]),
        ]
        .concat();
        let (split, all) = split_all(&request, LIMITS).unwrap();
        assert_eq!(split, Split { records: 3, too_long: 0, has_unknown: true });
        let around = |scope: &[&[u8]]| nested(1, &[&*resource, &later, &nested(2, scope)]);
        assert_eq!(all[0], around(&[&scope, &url, &one]));
        assert_eq!(all[1], around(&[&scope, &url, &two]));
        assert_eq!(all[2], around(&[&three]));
        // All of them together are a request again, and its records are the same.
        assert_eq!(split_all(&all.concat(), LIMITS).unwrap().1, all);
        assert_eq!(body(&all[1]), Ok(LogBody::Text(b"two")));
    }

    #[test]
    fn a_record_that_is_too_long_is_counted_and_too_many_bytes_are_refused() {
        let long = "x".repeat(1000);
        let request = nested(1, &[&nested(2, &[&record("a"), &record(&long), &record("b")])]);
        let (split, all) = split_all(&request, LIMITS).unwrap();
        assert_eq!((split, all.len()), (Split { records: 2, too_long: 1, has_unknown: false }, 2));
        let limits = SplitLimits { bytes_max: all[0].len() * 2 - 1, ..LIMITS };
        let refused = SplitError::TooLarge { bytes_max: limits.bytes_max };
        assert_eq!(split_all(&request, limits), Err(refused));
    }

    /// A request with one log record of these fields.
    fn with_fields(fields: &[&[u8]]) -> Vec<u8> {
        nested(1, &[&nested(2, &[&nested(2, fields)])])
    }

    /// An AnyValue that is so many messages deep: arrays in arrays.
    fn deep(levels: usize) -> Vec<u8> {
        (0..levels)
            .rev()
            .fold(Vec::new(), |inner, level| nested(if level % 2 == 0 { 5 } else { 1 }, &[&inner]))
    }

    #[test]
    fn what_a_decoder_refuses_on_any_level_is_refused() {
        let good = with_fields(&[&[0x10, 9]]);
        let string = |of: u32, text: &[u8]| nested(of, &[&nested(1, &[text])]);
        for (wrong, why) in [
            (b"text".to_vec(), Malformed::Bytes),
            (good[..good.len() - 1].to_vec(), Malformed::Bytes),
            (with_fields(&[&[0x0b]]), Malformed::Bytes),
            (with_fields(&[&nested(5, &[b"short"])]), Malformed::Bytes),
            (with_fields(&[&nested(6, &[&nested(2, &[&[0x08]])])]), Malformed::Bytes),
            (nested(1, &[&nested(1, &[&nested(1, &[b"\x0a\x05x"])]), &nested(2, &[])]), Malformed::Bytes),
            // Request, ResourceLogs, ScopeLogs, LogRecord: the body is the fourth.
            (with_fields(&[&nested(5, &[&deep(97)])]), Malformed::TooDeep),
            (with_fields(&[&[0x10], &[0xff; 9], &[2]]), Malformed::NumberTooLong),
        ] {
            assert_eq!(split_all(&wrong, LIMITS), Err(SplitError::Malformed(why)), "{wrong:?}");
            assert!(!is_record(&wrong), "{wrong:?}");
        }
        let deepest = with_fields(&[&nested(5, &[&deep(96)])]);
        assert_eq!(split_all(&deepest, LIMITS).unwrap().1, [&deepest[..]]);
        // What is known by its number has another wire type, or is in a group: some decoders skip it, and others would refuse it.
        let other_types =
            with_fields(&[&[0x28, 1], &[0x2b, 0x08, 1, 0x2c], &[0x9b, 1, 0x9c, 1], &string(5, b"x")]);
        let right = with_fields(&[&[0x9b, 1, 0x9c, 1], &string(5, b"x")]);
        assert_eq!(split_all(&other_types, LIMITS).unwrap().1, [&right[..]]);
        assert!(is_record(&right) && !is_record(&other_types));
        assert_eq!(body(&right), Ok(LogBody::Text(b"x")));
        let around = nested(1, &[&[0x18, 1], &nested(2, &[&[0x60, 1, 0x10, 0], &nested(2, &[])])]);
        let right = nested(1, &[&nested(2, &[&[0x60, 1], &nested(2, &[])])]);
        assert_eq!(split_all(&around, LIMITS).unwrap().1, [&right[..]]);
    }

    #[test]
    fn a_request_without_records_may_be_something_else() {
        assert_eq!(split_all(&[], LIMITS).unwrap().0, Split::default());
        assert_eq!(split_all(&nested(1, &[&nested(1, &[])]), LIMITS).unwrap().0, Split::default());
        for other in [vec![0x08, 1], nested(1, &[&[0x10, 1]]), nested(1, &[&nested(2, &[&[0x10, 1]])])] {
            let (split, _) = split_all(&other, LIMITS).unwrap();
            assert_eq!(split, Split { has_unknown: true, ..Split::default() }, "{other:?}");
        }
    }

    #[test]
    fn a_text_that_is_not_utf8_loses_the_bad_bytes_alone() {
        let string = |text: &[u8]| nested(5, &[&nested(1, &[text])]);
        let resource = |name: &[u8]| nested(1, &[&nested(1, &[&nested(1, &[name])])]);
        let other = nested(5, &[&nested(7, &[b"\xff"])]);
        let request = |name: &[u8], text: &[u8]| {
            let records = [nested(2, &[&string(text), &[0x10, 9]]), nested(2, &[&other])];
            nested(1, &[&resource(name), &nested(2, &[&nested(3, &[text]), &records[0], &records[1]])])
        };
        let (found, all) = split_all(&request(b"r\xe9", b"caf\xe9"), LIMITS).unwrap();
        assert_eq!((found.records, found.too_long), (2, 0));
        let right = request("r\u{fffd}".as_bytes(), "caf\u{fffd}".as_bytes());
        assert_eq!(all, split_all(&right, LIMITS).unwrap().1);
        assert!(all.iter().all(|record| is_record(record)));
        assert!(!is_record(&request(b"r", b"caf\xe9")));
    }

    #[test]
    fn only_one_whole_log_record_is_a_record() {
        let record = record("a");
        let whole = nested(1, &[&nested(2, &[&record])]);
        assert!(is_record(&whole));
        for other in [
            vec![],
            [&whole[..], &whole].concat(),
            nested(1, &[&nested(2, &[&record, &record])]),
            nested(1, &[&nested(2, &[&record]), &nested(2, &[&record])]),
            nested(1, &[&nested(2, &[])]),
            nested(1, &[]),
            [&whole[..], &[0x78, 1]].concat(),
        ] {
            assert!(!is_record(&other), "{other:?}");
        }
    }

    #[test]
    fn a_body_is_a_text_something_else_or_absent() {
        for (record, expected) in [
            (vec![], LogBody::Absent),
            (nested(5, &[]), LogBody::Absent),
            (nested(5, &[&[0x18, 7]]), LogBody::Other),
            (nested(5, &[&nested(1, &[])]), LogBody::Text(b"")),
            ([nested(5, &[&nested(1, &[])]), nested(5, &[])].concat(), LogBody::Text(b"")),
        ] {
            let request = nested(1, &[&nested(2, &[&nested(2, &[&record])])]);
            assert_eq!(body(&request), Ok(expected));
        }
        assert!(body(b"").is_err() && body(b"text").is_err());
    }
}
