//! A push request in Protocol Buffers (pkg/push/push.proto of Loki).
//!
//! ```text
//! PushRequest   1 streams, repeated
//!   Stream      1 labels: {app="shop"}     2 entries, repeated
//!     Entry     1 timestamp: 1 seconds, 2 nanoseconds    2 line    3 structured metadata, repeated: 1 name, 2 value
//! ```

use std::borrow::Cow;

use bbq_wire::otlp::{FieldValue, fields};

use super::labels;
use super::lines::{LineFields, Lines, PushError};
use crate::time;

/// Metadata of a line: Loki takes 128 unless it is told otherwise.
const METADATA_MAX: usize = 1024;

pub(super) fn read(request: &[u8], tenant: Option<&str>, lines: &mut Lines) -> Result<(), PushError> {
    let mut has_stream = false;
    let mut has_other = false;
    for field in fields(request) {
        let field = field?;
        match (field.number, field.value) {
            (1, FieldValue::Bytes(stream)) => {
                has_stream = true;
                read_stream(stream, tenant, lines)?;
            }
            (1, _) => return Err(PushError::of("its streams are no messages")),
            // `format`, which says nothing of the lines.
            (2, _) => {}
            _ => has_other = true,
        }
    }
    // Taken would mean that lines are stored.
    if has_other && !has_stream {
        return Err(PushError::of("it has no streams, and fields that a push request does not have"));
    }
    Ok(())
}

fn read_stream(stream: &[u8], tenant: Option<&str>, lines: &mut Lines) -> Result<(), PushError> {
    let mut of_stream = Vec::new();
    // The labels may stand behind the lines.
    for field in fields(stream) {
        let field = field?;
        match (field.number, field.value) {
            (1, FieldValue::Bytes(text)) => {
                let text = std::str::from_utf8(text).map_err(|_| PushError::of("labels are not UTF-8"))?;
                of_stream = labels::read(text)?;
            }
            (2, FieldValue::Bytes(_)) | (3.., _) => {}
            _ => return Err(PushError::of("a stream is not as it should be")),
        }
    }
    let mut of_line = LineFields::of_stream(tenant, &of_stream);
    for field in fields(stream) {
        if let (2, FieldValue::Bytes(entry)) = (field?.number, field?.value) {
            read_entry(entry, &mut of_line, lines)?;
        }
    }
    Ok(())
}

fn read_entry<'a>(entry: &'a [u8], of_line: &mut LineFields<'a>, lines: &mut Lines) -> Result<(), PushError> {
    let wrong = || PushError::of("a line is not as it should be");
    let (mut time_ns, mut line, mut replaced) = (0, &[][..], Vec::new());
    let of_this = of_line.next_line();
    let of_stream = of_this.len();
    for field in fields(entry) {
        let field = field?;
        match (field.number, field.value) {
            (1, FieldValue::Bytes(timestamp)) => time_ns = read_time(timestamp)?,
            (2, FieldValue::Bytes(text)) => line = text,
            (3, FieldValue::Bytes(pair)) => match read_pair(pair)? {
                (Cow::Borrowed(name), Cow::Borrowed(value)) => of_this.push((name, value)),
                (name, value) => replaced.push((name.into_owned(), value.into_owned())),
            },
            (1..=3, _) => return Err(wrong()),
            _ => {}
        }
        if of_this.len() + replaced.len() > of_stream + METADATA_MAX {
            return Err(PushError::of(format!("a line has more than {METADATA_MAX} metadata")));
        }
    }
    if replaced.is_empty() {
        return Ok(lines.push(line, time_ns, of_this)?);
    }
    let replaced = replaced.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let all: Vec<(&str, &str)> = of_this.iter().copied().chain(replaced).collect();
    Ok(lines.push(line, time_ns, &all)?)
}

fn read_time(timestamp: &[u8]) -> Result<u64, PushError> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    for field in fields(timestamp) {
        let field = field?;
        match (field.number, field.value) {
            (1, FieldValue::Varint(value)) => seconds = value,
            (2, FieldValue::Varint(value)) => nanoseconds = value,
            (1 | 2, _) => return Err(PushError::of("a timestamp is not as it should be")),
            _ => {}
        }
    }
    // The line is worth more than a time that nobody can show.
    Ok(time::of_seconds(seconds, nanoseconds).unwrap_or(0))
}

/// Name and value of metadata. Bytes that are not UTF-8 are replaced.
fn read_pair(pair: &[u8]) -> Result<(Cow<'_, str>, Cow<'_, str>), PushError> {
    let (mut name, mut value) = (Cow::Borrowed(""), Cow::Borrowed(""));
    for field in fields(pair) {
        let field = field?;
        match (field.number, field.value) {
            (1, FieldValue::Bytes(text)) => name = String::from_utf8_lossy(text),
            (2, FieldValue::Bytes(text)) => value = String::from_utf8_lossy(text),
            (1 | 2, _) => return Err(PushError::of("metadata are not as they should be")),
            _ => {}
        }
    }
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::super::{Encoding, Push, decompressed, decompressed_bytes, push};
    use super::*;
    use crate::collected::TooMuch;
    use crate::limits::Limits;

    const LIMITS: Limits = Limits { message_bytes_max: 20, bytes_max: 10_000 };

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        let mut length = bytes.len();
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend_from_slice(bytes);
        out
    }

    fn entry(seconds: u8, line: &[u8], metadata: &[(&str, &str)]) -> Vec<u8> {
        let time = field(1, &[0x08, seconds, 0x10, 7]);
        let pair = |(name, value): &(&str, &str)| {
            field(3, &[field(1, name.as_bytes()), field(2, value.as_bytes())].concat())
        };
        let metadata: Vec<u8> = metadata.iter().flat_map(pair).collect();
        field(2, &[time, field(2, line), metadata].concat())
    }

    fn stream(labels: &str, entries: &[Vec<u8>]) -> Vec<u8> {
        field(1, &[field(1, labels.as_bytes()), entries.concat()].concat())
    }

    fn read(request: &[u8]) -> Result<Push, PushError> {
        push(Encoding::Protobuf, request, None, LIMITS)
    }

    #[test]
    fn lines_have_their_time_labels_and_metadata() {
        let request = [
            stream(r#"{app="shop"}"#, &[entry(1, b"one", &[]), entry(2, b"two\xff", &[("trace", "abc")])]),
            stream("{}", &[entry(0, b"", &[]), entry(3, b"much longer than it may be", &[])]),
        ]
        .concat();
        let Push { events, too_long } = push(Encoding::Protobuf, &request, Some("team"), LIMITS).unwrap();
        let found: Vec<_> = events
            .iter()
            .map(|event| (event.message, event.time_ns, event.fields.collect::<Vec<_>>()))
            .collect();
        let (tenant, app) = (("tenant", "team"), ("app", "shop"));
        assert_eq!(
            found,
            [
                (&b"one"[..], 1_000_000_007, vec![tenant, app]),
                (b"two\xff", 2_000_000_007, vec![tenant, app, ("trace", "abc")]),
                (b"", 7, vec![tenant]),
            ]
        );
        assert_eq!(too_long, 1);
    }

    #[test]
    fn labels_may_stand_behind_the_lines() {
        let body = [entry(1, b"one", &[]), field(1, br#"{a="b"}"#)].concat();
        let events = read(&field(1, &body)).unwrap().events;
        assert_eq!(events.iter().next().unwrap().fields.collect::<Vec<_>>(), [("a", "b")]);
    }

    #[test]
    fn what_is_no_request_is_refused_and_an_empty_one_is_taken() {
        assert!(read(b"").unwrap().events.is_empty());
        for wrong in [
            b"\xff".to_vec(),
            b"text".to_vec(),
            // A number in place of a stream, and a field that is not known alone.
            vec![0x08, 1],
            field(5, b"x"),
            stream("app", &[entry(1, b"one", &[])]),
            field(1, &field(1, b"\xff")),
            field(1, &[0x10, 1]),
            field(1, &field(2, &[0x10, 1])),
            field(1, &field(2, &field(1, &field(1, b"")))),
            field(1, &field(2, &field(3, &[0x08, 1]))),
            field(1, &field(2, b"\x12\x7f")),
        ] {
            assert!(matches!(read(&wrong), Err(PushError::Malformed(_))), "{wrong:?}");
        }
    }

    #[test]
    fn labels_that_each_line_repeats_are_within_the_limit() {
        let labels = format!("{{a=\"{}\"}}", "v".repeat(1000));
        let entries: Vec<Vec<u8>> =
            (0..20).map(|number: u8| entry(1, b"x", &[("n", &number.to_string())])).collect();
        assert_eq!(read(&stream(&labels, &entries)).unwrap_err(), TooMuch { bytes_max: 10_000 }.into());
        let same: Vec<Vec<u8>> = (0..200).map(|_| entry(1, b"x", &[])).collect();
        assert_eq!(read(&stream(&labels, &same)).unwrap().events.len(), 200);
    }

    #[test]
    fn a_block_of_snappy_says_how_long_it_is_before_it_is_decompressed() {
        let text = b"abcabcabcabcabcabcabcabcabcabcabcabc".repeat(1000);
        let block = snap::raw::Encoder::new().compress_vec(&text).unwrap();
        assert_eq!(decompressed_bytes(&block), Ok(text.len()));
        assert_eq!(decompressed(&block).unwrap(), text);
        // A bomb that says that it has 4 GiB.
        assert_eq!(decompressed_bytes(b"\xff\xff\xff\xff\x0f"), Ok(u32::MAX as usize));
        for wrong in [&b"\xff\xff\xff\xff\xff\xff"[..], b"\x05\x00"] {
            assert!(decompressed(wrong).is_err());
        }
        assert!(decompressed(&block[..block.len() / 2]).is_err());
        assert!(decompressed_bytes(b"").is_err() || decompressed_bytes(b"") == Ok(0));
    }
}
