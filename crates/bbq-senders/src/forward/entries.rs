//! The entries of a message, part by part: what is read of them at a time is bounded, whatever a message holds.

use bbq_wire::batch::Events;
use bbq_wire::limits::BATCH_RECORDS_MAX;

use super::error::NotForward;
use super::msgpack::{Head, Reader};
use super::record::{Context, Outcome, Scratch};

/// Where entries are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    /// Time and record, without an array around them; what is behind them is no entry.
    One(&'a [u8]),
    /// As many as were announced.
    Listed(&'a [u8], u32),
    /// Up to the end.
    Packed(&'a [u8]),
}

/// What may be taken of entries.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest message.
    pub message_bytes_max: usize,
    /// Whether longer ones are cut, and not left out.
    pub cuts: bool,
    /// A part ends behind the entry with which its events take so many bytes.
    pub part_bytes: usize,
}

/// The records of some entries.
#[derive(Debug, Default)]
pub struct Part {
    /// Their messages, with times and fields.
    pub events: Events,
    /// Entries that were left out because they are too long.
    pub oversize: u64,
    /// Messages of which only the front is here.
    pub cut: u64,
}

/// The entries of a message that are not read yet.
#[derive(Debug)]
pub struct Entries<'a> {
    source: Source<'a>,
    scratch: Scratch<'a>,
}

/// Time and metadata, and the record.
type Entry<'a> = ((u64, &'a [u8]), &'a [u8]);

impl<'a> Entries<'a> {
    pub(super) fn new(source: Source<'a>) -> Entries<'a> {
        Entries { source, scratch: Scratch::default() }
    }

    /// Reads the next part; `None` behind the last one.
    ///
    /// # Errors
    /// An entry is not as the protocol says.
    pub fn part(&mut self, tag: &str, limits: Limits) -> Result<Option<Part>, NotForward> {
        let context = Context { tag, message_bytes_max: limits.message_bytes_max, cuts: limits.cuts };
        let mut part = Part::default();
        let mut has_any = false;
        while part.events.len() < BATCH_RECORDS_MAX as usize
            && part.events.body_bytes_max() < limits.part_bytes
        {
            let Some((time, record)) = self.next()? else { break };
            has_any = true;
            match self.scratch.push(record, time, context, &mut part.events)? {
                Outcome::Taken => {}
                Outcome::Cut => part.cut += 1,
                Outcome::Oversize => part.oversize += 1,
            }
        }
        Ok(has_any.then_some(part))
    }

    /// The next entry.
    fn next(&mut self) -> Result<Option<Entry<'a>>, NotForward> {
        let (mut reader, left) = match self.source {
            Source::One(rest) => (Reader::new(rest), None),
            Source::Listed(rest, left) => (Reader::new(rest), Some(left)),
            Source::Packed(rest) => (Reader::new(rest), None),
        };
        if let Source::One(_) = self.source {
            self.source = Source::Packed(&[]);
            return Ok(Some((time(&mut reader)?, reader.value()?)));
        }
        if left == Some(0) || (left.is_none() && reader.is_empty()) {
            return Ok(None);
        }
        let elements = match reader.head()? {
            Head::Array(elements) if elements >= 2 => elements,
            _ => return Err(NotForward::Malformed("an entry is no array of time and record")),
        };
        let entry = (time(&mut reader)?, reader.value()?);
        for _ in 2..elements {
            reader.value()?;
        }
        self.source = match left {
            Some(left) => Source::Listed(reader.rest, left - 1),
            None => Source::Packed(reader.rest),
        };
        Ok(Some(entry))
    }
}

/// Reads the time of an entry, in nanoseconds since 1970-01-01 UTC, and its metadata, if it has any: `[time, metadata]`. A time that
/// is none is 0, unknown.
fn time<'a>(reader: &mut Reader<'a>) -> Result<(u64, &'a [u8]), NotForward> {
    let mut value = Reader::new(reader.value()?);
    let mut metadata: &[u8] = &[];
    let mut head = value.head()?;
    if head == Head::Array(2) {
        let mut time = Reader::new(value.value()?);
        metadata = value.value()?;
        (head, value) = (time.head()?, time);
    }
    let time_ns = match head {
        Head::Unsigned(seconds) => seconds.checked_mul(1_000_000_000),
        // EventTime: seconds and nanoseconds.
        Head::Ext(0, 8) => value.take(8)?.split_first_chunk().and_then(|(seconds, rest)| {
            let nanoseconds = u32::from_be_bytes(*rest.first_chunk()?);
            Some(u64::from(u32::from_be_bytes(*seconds)) * 1_000_000_000 + u64::from(nanoseconds))
        }),
        // Conversion saturates, and makes 0 of what is below or no number.
        Head::F64(seconds) => Some((seconds * 1e9) as u64),
        Head::F32(seconds) => Some((f64::from(seconds) * 1e9) as u64),
        _ => None,
    };
    // What is behind the year 2262 does not fit where times are shown.
    Ok((time_ns.filter(|time| i64::try_from(*time).is_ok()).unwrap_or(0), metadata))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Value, map, packed};
    use super::super::testing_limits;
    use super::*;

    fn entry(time: Value, text: &str) -> Vec<u8> {
        packed(&Value::Array(vec![time, map([("log", Value::text(text))])]))
    }

    #[test]
    fn each_kind_of_time_is_read() {
        let time_of = |time: Value| {
            let bytes = entry(time, "x");
            let part = Entries::new(Source::Packed(&bytes)).part("t", testing_limits()).unwrap().unwrap();
            part.events.iter().next().unwrap().time_ns
        };
        let second = 1_700_000_000;
        assert_eq!(time_of(Value::Int(second)), 1_700_000_000_000_000_000);
        assert_eq!(time_of(Value::time(1_700_000_000, 123_456_789)), 1_700_000_000_123_456_789);
        assert_eq!(time_of(Value::F64(1.5)), 1_500_000_000);
        for unknown in [
            Value::Int(0),
            Value::Int(-1),
            Value::Int(i64::MAX),
            Value::Int(1_700_000_000_000),
            Value::F64(f64::NAN),
            Value::F64(-1.0),
            Value::F64(1e300),
            Value::Nil,
            Value::text("now"),
            Value::Ext(1, vec![0; 8]),
            Value::Ext(0, vec![0; 7]),
        ] {
            assert_eq!(time_of(unknown.clone()), 0, "{unknown:?}");
        }
        assert_eq!(time_of(Value::Array(vec![Value::Int(1), map([])])), 1_000_000_000);
    }

    #[test]
    fn parts_are_bounded_and_have_every_entry_once() {
        let bytes: Vec<u8> = (0..1000).flat_map(|number| entry(Value::Int(1), &number.to_string())).collect();
        for source in [Source::Packed(&bytes), Source::Listed(&bytes, 1000)] {
            let mut entries = Entries::new(source);
            let limits = Limits { part_bytes: 1000, ..testing_limits() };
            let mut all = Vec::new();
            while let Some(part) = entries.part("t", limits).unwrap() {
                assert!(part.events.len() < 40, "{}", part.events.len());
                all.extend(
                    part.events.iter().map(|event| String::from_utf8_lossy(event.message).into_owned()),
                );
            }
            assert_eq!(all, (0..1000).map(|number: u32| number.to_string()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let bytes = [entry(Value::Int(1), "long"), entry(Value::Int(1), "s")].concat();
        let limits = Limits { message_bytes_max: 3, ..testing_limits() };
        let part = Entries::new(Source::Packed(&bytes)).part("t", limits).unwrap().unwrap();
        assert_eq!((part.events.len(), part.oversize, part.cut), (1, 1, 0));
        let cuts = Limits { cuts: true, ..limits };
        let part = Entries::new(Source::Packed(&bytes)).part("t", cuts).unwrap().unwrap();
        assert_eq!((part.events.len(), part.oversize, part.cut), (2, 0, 1));
    }

    #[test]
    fn an_entry_that_is_none_is_an_error() {
        for bytes in [&[0x01][..], &[0x91, 1], &[0x92, 1], &[0x92], &[0xc1], &[0x80]] {
            assert!(Entries::new(Source::Packed(bytes)).part("t", testing_limits()).is_err(), "{bytes:02x?}");
            assert!(
                Entries::new(Source::Listed(bytes, 1)).part("t", testing_limits()).is_err(),
                "{bytes:02x?}"
            );
        }
        // What is announced and missing.
        assert!(
            Entries::new(Source::Listed(&entry(Value::Int(1), "x"), 2)).part("t", testing_limits()).is_err()
        );
        assert!(Entries::new(Source::Packed(&[])).part("t", testing_limits()).unwrap().is_none());
    }
}
