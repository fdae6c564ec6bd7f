//! A request of OTLP logs, as an SDK sends it. `bbq_wire::otlp` draws its fields.

use std::time::{SystemTime, UNIX_EPOCH};

/// The number of INFO in the data model of logs.
const INFO: u8 = 9;

/// An ExportLogsServiceRequest of so many log records, each with a text of `text_bytes` bytes, two times and a severity, and all of one resource and
/// scope with a name each.
pub(crate) fn request(records: u64, text_bytes: usize) -> Vec<u8> {
    let text: Vec<u8> = (b'a'..=b'z').cycle().take(text_bytes).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_nanos()).unwrap_or(0).to_le_bytes();
    // time_unix_nano, severity_number, severity_text, body, observed_time_unix_nano.
    let record =
        [fixed(1, now), vec![2 << 3, INFO], nested(3, b"INFO"), nested(5, &nested(1, &text)), fixed(11, now)];
    let record = nested(2, &record.concat());
    let name = [nested(1, b"service.name"), nested(2, &nested(1, b"bbq-bench"))].concat();
    let resource = nested(1, &nested(1, &name));
    let scope = nested(1, &nested(1, b"bench"));
    let scope_logs: Vec<u8> =
        std::iter::once(scope).chain((0..records).map(|_| record.clone())).flatten().collect();
    nested(1, &[resource, nested(2, &scope_logs)].concat())
}

/// A field of 64 bits.
fn fixed(number: u8, value: [u8; 8]) -> Vec<u8> {
    [&[number << 3 | 1], &value[..]].concat()
}

/// A field of bytes, a text or a message.
fn nested(number: u8, inner: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut rest = inner.len();
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80); // seven bits
        rest >>= 7;
    }
    out.push(rest as u8); // seven bits
    out.extend_from_slice(inner);
    out
}

#[cfg(test)]
mod tests {
    use bbq_wire::otlp::{LogBody, SplitLimits, body, records, split};

    use super::*;

    #[test]
    fn a_request_has_so_many_records_each_with_its_text() {
        let limits = SplitLimits { record_bytes_max: 1 << 10, bytes_max: 1 << 20 };
        let mut all = Vec::new();
        assert_eq!(split(&request(300, 100), limits, &mut all).unwrap().records, 300);
        for record in records(&all) {
            let LogBody::Text(text) = body(record).unwrap() else { panic!("no text") };
            assert_eq!((text.len(), &text[..3]), (100, &b"abc"[..]));
        }
    }
}
