//! Joins records that have the same resource and scope around them: the reverse of `split`.

use super::field::{Field, FieldValue, fields};
use super::tags::{LOG_RECORDS, RESOURCE_LOGS, SCOPE_LOGS, put_nested};

/// Makes a request of records that are one behind the other, as [`split`](super::split) has them: log records that follow each other with
/// the same bytes around them are in one ScopeLogs and ResourceLogs. Cutting the request gives the same records, in the same order. What
/// is laid out in another way is taken as it is.
#[must_use]
pub fn join(records: &[u8]) -> Vec<u8> {
    let mut joiner = Joiner { out: Vec::with_capacity(records.len()), ..Joiner::default() };
    let mut rest = records;
    for field in fields(records) {
        let Ok(field) = field else { break };
        rest = &rest[field.bytes.len()..];
        match Parts::of(&field) {
            Some(parts) => joiner.add(&parts),
            None => {
                joiner.finish();
                joiner.out.extend_from_slice(field.bytes);
            }
        }
    }
    joiner.finish();
    // Malformed: the receiver is to see it.
    joiner.out.extend_from_slice(rest);
    joiner.out
}

/// A record in the layout of `split`.
struct Parts<'a> {
    of_resource: &'a [u8],
    of_scope: &'a [u8],
    /// With its tag and length.
    log_record: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(record: &Field<'a>) -> Option<Parts<'a>> {
        let (RESOURCE_LOGS, FieldValue::Bytes(resource_logs)) = (record.number, record.value) else {
            return None;
        };
        let (of_resource, scope_logs) = before_last(resource_logs, SCOPE_LOGS)?;
        let FieldValue::Bytes(scope_logs) = scope_logs.value else { return None };
        let (of_scope, log_record) = before_last(scope_logs, LOG_RECORDS)?;
        Some(Parts { of_resource, of_scope, log_record: log_record.bytes })
    }
}

/// What is in front of the last field, if this is the only one with the number.
fn before_last<'a>(of: &'a [u8], number: u32) -> Option<(&'a [u8], Field<'a>)> {
    let mut before = 0;
    for field in fields(of) {
        let field = field.ok()?;
        if field.number == number {
            let is_last = before + field.bytes.len() == of.len();
            return is_last.then(|| (&of[..before], field));
        }
        before += field.bytes.len();
    }
    None
}

#[derive(Default)]
struct Joiner<'a> {
    out: Vec<u8>,
    of_resource: &'a [u8],
    of_scope: &'a [u8],
    /// The finished ScopeLogs of the resource.
    scopes: Vec<u8>,
    /// The log records of the scope; empty between two records with other things around them.
    log_records: Vec<u8>,
}

impl<'a> Joiner<'a> {
    fn add(&mut self, parts: &Parts<'a>) {
        if parts.of_resource != self.of_resource {
            self.finish();
        } else if parts.of_scope != self.of_scope {
            self.finish_scope();
        }
        (self.of_resource, self.of_scope) = (parts.of_resource, parts.of_scope);
        self.log_records.extend_from_slice(parts.log_record);
    }

    fn finish_scope(&mut self) {
        if !self.log_records.is_empty() {
            put_nested(SCOPE_LOGS, self.of_scope.len() + self.log_records.len(), &mut self.scopes);
            self.scopes.extend_from_slice(self.of_scope);
            self.scopes.append(&mut self.log_records);
        }
    }

    fn finish(&mut self) {
        self.finish_scope();
        if !self.scopes.is_empty() {
            put_nested(RESOURCE_LOGS, self.of_resource.len() + self.scopes.len(), &mut self.out);
            self.out.extend_from_slice(self.of_resource);
            self.out.append(&mut self.scopes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::split::{SplitLimits, split};
    use super::*;

    const LIMITS: SplitLimits = SplitLimits { record_bytes_max: 1000, bytes_max: 1 << 20 };

    fn nested(number: u32, inner: &[&[u8]]) -> Vec<u8> {
        let inner = inner.concat();
        let mut out = Vec::new();
        put_nested(number, inner.len(), &mut out);
        [out, inner].concat()
    }

    fn cut(request: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        split(request, LIMITS, &mut out).unwrap();
        out
    }

    #[test]
    fn what_was_cut_is_a_request_of_the_same_size_again() {
        let log = |severity: u8| nested(2, &[&[0x10, severity]]);
        let (resource, scope, url) =
            (nested(1, &[b"\x10\x05"]), nested(1, &[b"\x0a\x01s"]), nested(3, &[b"u"]));
        let request = [
            nested(1, &[&resource, &url, &nested(2, &[&scope, &log(1), &log(2)]), &nested(2, &[&log(3)])]),
            nested(1, &[&nested(2, &[&log(4), &log(5)])]),
            nested(1, &[&resource, &nested(2, &[&log(6)])]),
        ]
        .concat();
        let records = cut(&request);
        assert_eq!(join(&records), request);
        assert_eq!(cut(&join(&records)), records);
        assert_eq!(join(b""), b"");
    }

    #[test]
    fn another_layout_stays_as_it_is() {
        let (log, scope) = (nested(2, &[b"\x10\x01"]), nested(1, &[b"\x0a\x01s"]));
        let good = nested(1, &[&nested(2, &[&log])]);
        for other in [
            nested(1, &[&nested(2, &[&log, &scope])]),
            nested(1, &[&nested(2, &[&log, &log])]),
            nested(1, &[&nested(2, &[&log]), &scope]),
            nested(1, &[&scope]),
            nested(1, &[&nested(2, &[])]),
            nested(7, &[b"x"]),
        ] {
            let records = [&good[..], &other, &good].concat();
            assert_eq!(join(&records), records);
        }
        let malformed = [&good[..], b"\x0a\x7fx"].concat();
        assert_eq!(join(&malformed), malformed);
    }
}
