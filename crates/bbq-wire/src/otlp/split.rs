//! Cuts a request into records, each with its resource and scope, and finds the body of a record.

use super::field::{Field, FieldValue, Malformed, fields};
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

/// Appends the records of a request to `out`. [`records`] finds them there. Log records are checked on their first level alone.
///
/// # Errors
/// Why the request was not cut; `out` is of no use then.
pub fn split(request: &[u8], limits: SplitLimits, out: &mut Vec<u8>) -> Result<Split, SplitError> {
    let mut splitter =
        Splitter { limits, out, of_resource: Vec::new(), of_scope: Vec::new(), split: Split::default() };
    for field in fields(request) {
        let field = field?;
        if field.number == RESOURCE_LOGS {
            splitter.resource_logs(message(&field)?)?;
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
    split: Split,
}

impl Splitter<'_> {
    fn resource_logs(&mut self, resource_logs: &[u8]) -> Result<(), SplitError> {
        self.of_resource.clear();
        keep_others(resource_logs, SCOPE_LOGS, &mut self.of_resource)?;
        for field in fields(resource_logs) {
            let field = field?;
            if field.number == SCOPE_LOGS {
                self.scope_logs(message(&field)?)?;
            }
        }
        Ok(())
    }

    fn scope_logs(&mut self, scope_logs: &[u8]) -> Result<(), SplitError> {
        self.of_scope.clear();
        keep_others(scope_logs, LOG_RECORDS, &mut self.of_scope)?;
        for field in fields(scope_logs) {
            let field = field?;
            if field.number == LOG_RECORDS {
                let record = message(&field)?;
                fields(record).try_for_each(|field| field.map(|_| ()))?;
                self.put(field.bytes)?;
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

/// Copies all fields but those with this number.
fn keep_others(of: &[u8], number: u32, out: &mut Vec<u8>) -> Result<(), Malformed> {
    for field in fields(of) {
        let field = field?;
        if field.number != number {
            out.extend_from_slice(field.bytes);
        }
    }
    Ok(())
}

fn message<'a>(field: &Field<'a>) -> Result<&'a [u8], Malformed> {
    match field.value {
        FieldValue::Bytes(bytes) => Ok(bytes),
        _ => Err(Malformed),
    }
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
        inner = last(inner, number)?.ok_or(Malformed)?;
    }
    let Some(value) = last(inner, BODY)? else { return Ok(LogBody::Absent) };
    let mut body = LogBody::Absent;
    for field in fields(value) {
        body = match field? {
            Field { number: STRING_VALUE, value: FieldValue::Bytes(text), .. } => LogBody::Text(text),
            _ => LogBody::Other,
        };
    }
    Ok(body)
}

/// The last message with this number.
fn last(of: &[u8], number: u32) -> Result<Option<&[u8]>, Malformed> {
    let mut found = None;
    for field in fields(of) {
        let field = field?;
        if field.number == number {
            found = Some(message(&field)?);
        }
    }
    Ok(found)
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
        let (resource, scope) = (nested(1, &[b"\x0a\x02re"]), nested(1, &[b"\x0a\x02sc"]));
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
        assert_eq!(split, Split { records: 3, too_long: 0 });
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
        assert_eq!((split, all.len()), (Split { records: 2, too_long: 1 }, 2));
        let limits = SplitLimits { bytes_max: all[0].len() * 2 - 1, ..LIMITS };
        let refused = SplitError::TooLarge { bytes_max: limits.bytes_max };
        assert_eq!(split_all(&request, limits), Err(refused));
    }

    #[test]
    fn what_is_malformed_down_to_the_fields_of_a_log_record_is_refused() {
        let good = nested(1, &[&nested(2, &[&record("a")])]);
        for wrong in [
            b"text".to_vec(),
            vec![0x08, 1],
            nested(1, &[&[0x10, 1]]),
            nested(1, &[&nested(2, &[&[0x10, 1]])]),
            nested(1, &[&nested(2, &[&nested(2, &[&[0x0b]])])]),
            good[..good.len() - 1].to_vec(),
        ] {
            assert!(matches!(split_all(&wrong, LIMITS), Err(SplitError::Malformed(_))), "{wrong:?}");
        }
        assert_eq!(split_all(&[], LIMITS).unwrap().0, Split::default());
    }

    #[test]
    fn a_body_is_a_text_something_else_or_absent() {
        for (record, expected) in [
            (vec![], LogBody::Absent),
            (nested(5, &[]), LogBody::Absent),
            (nested(5, &[&[0x18, 7]]), LogBody::Other),
            (nested(5, &[&nested(1, &[])]), LogBody::Text(b"")),
        ] {
            let request = nested(1, &[&nested(2, &[&nested(2, &[&record])])]);
            assert_eq!(body(&request), Ok(expected));
        }
        assert!(body(b"").is_err() && body(b"text").is_err());
    }
}
