//! What a reader sees of a group: which records, and what of them.
//!
//! A lens hides records, or changes what they say. The batches stay as they are: a batch of which records are hidden is shown as runs of
//! the others, each with the numbers and peers that its records have in the batch. A lens can also know how fields are found in records,
//! for those that show them.
//!
//! Invariant: a lens shows the same each time that the group is read.

use std::fmt;
use std::sync::Arc;

use bbq_wire::{Batch, SourceKind};

/// Changed records of a batch that are in memory at once, unless one is larger.
const CHANGED_BYTES_TARGET: usize = 256 * 1024;
const WORD_BITS: u64 = u64::BITS as u64;

/// Changes what records say.
pub trait Redact: Send + Sync {
    /// Appends the record to `out` as it is shown; returns whether it has. `false`: it is shown as it is, and `out` is unchanged.
    fn redact(&self, source: SourceKind, record: &[u8], out: &mut Vec<u8>) -> bool;
}

/// Finds fields in records, for formats and names that show them.
pub trait ParseFields: fmt::Debug + Send + Sync {
    /// Whether records from this listener of this server have a header of syslog, whatever protocol brought them.
    fn reads_syslog(&self, listener: &str) -> bool;

    /// Appends the fields of a record as an object of JSON, and returns how many are left out because there are too many or they are too
    /// long. `None`: the record has no fields, and `out` is unchanged.
    fn put_json(&self, record: &ParsedRecord<'_>, out: &mut Vec<u8>) -> Option<u64>;

    /// Appends the text of each named field to the text in the same place. A field that the record does not have, or that is not one
    /// value, adds nothing.
    fn put_texts(&self, record: &ParsedRecord<'_>, names: &[String], texts: &mut [String]);
}

/// A record in which fields are found.
#[derive(Clone, Copy, Debug)]
pub struct ParsedRecord<'a> {
    /// The listener or reader of this server that took it.
    pub listener: &'a str,
    /// The protocol that it came by.
    pub source: SourceKind,
    /// The record as it is shown.
    pub bytes: &'a [u8],
}

/// The records of a group that are hidden: a bit for each that can be read, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hidden {
    words: Vec<u64>,
    records: u64,
    hidden: u64,
}

/// See the module.
pub struct Lens {
    hidden: Hidden,
    redact: Option<Arc<dyn Redact>>,
    parser: Option<Arc<dyn ParseFields>>,
}

impl Hidden {
    /// Adds the next record of the group.
    #[inline]
    pub fn push(&mut self, is_hidden: bool) {
        let bit = self.records % WORD_BITS;
        if bit == 0 {
            self.words.push(0);
        }
        if let Some(last) = self.words.last_mut() {
            *last |= u64::from(is_hidden) << bit;
        }
        self.records += 1;
        self.hidden += u64::from(is_hidden);
    }

    /// How many were added.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How many of them are hidden.
    #[must_use]
    pub fn hidden(&self) -> u64 {
        self.hidden
    }

    /// How many records in a row, from this one on and at most so many, are hidden, or are not.
    fn run(&self, from: u64, most: u64, is_hidden: bool) -> u64 {
        let mut at = from;
        let end = from.saturating_add(most);
        while at < end {
            let word = usize::try_from(at / WORD_BITS).ok().and_then(|index| self.words.get(index));
            // What was not added is not hidden.
            let word = word.copied().unwrap_or(0) ^ if is_hidden { 0 } else { u64::MAX };
            let bit = at % WORD_BITS;
            let run = u64::from((word >> bit).trailing_ones()).min(WORD_BITS - bit);
            at += run;
            if run < WORD_BITS - bit {
                break;
            }
        }
        at.min(end) - from
    }
}

impl Lens {
    /// A lens that hides these records, and shows the others as `redact` changes them.
    #[must_use]
    pub fn new(hidden: Hidden, redact: Option<Arc<dyn Redact>>) -> Lens {
        Lens { hidden, redact, parser: None }
    }

    /// The same lens, which knows how fields are found in what it shows.
    #[must_use]
    pub fn with_parser(self, parser: Option<Arc<dyn ParseFields>>) -> Lens {
        Lens { parser, ..self }
    }

    pub(crate) fn parser(&self) -> Option<&Arc<dyn ParseFields>> {
        self.parser.as_ref()
    }

    /// Shows a batch of which the first record is number `first` of the group, in parts, and returns how many records it has shown.
    pub(crate) fn show<E>(
        &self,
        first: u64,
        batch: Batch<'_>,
        (changed, record): (&mut Vec<u8>, &mut Vec<u8>),
        take: &mut impl FnMut(Batch<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let (mut rest, mut at, mut shown) = (batch, first, 0);
        loop {
            let hidden = self.hidden.run(at, u64::from(rest.header.records), true);
            let visible = self.hidden.run(at + hidden, u64::from(rest.header.records) - hidden, false);
            if visible == 0 {
                return Ok(shown);
            }
            // Both are at most the records of a batch.
            if hidden > 0 {
                let _hidden = rest.split_off_first(hidden as u32);
            }
            let is_last = visible == u64::from(rest.header.records);
            let run = if is_last { rest.clone() } else { rest.split_off_first(visible as u32) };
            match &self.redact {
                None => take(run)?,
                Some(redact) => show_changed(&**redact, run, changed, record, take)?,
            }
            shown += visible;
            if is_last {
                return Ok(shown);
            }
            at += hidden + visible;
        }
    }
}

/// Shows all records of a batch, in parts, so that records which grow need no more memory.
fn show_changed<E>(
    redact: &dyn Redact,
    batch: Batch<'_>,
    changed: &mut Vec<u8>,
    out: &mut Vec<u8>,
    take: &mut impl FnMut(Batch<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = batch;
    while rest.header.records > 0 {
        changed.clear();
        let (mut records, mut has_changed) = (0, false);
        for record in rest.records() {
            out.clear();
            let is_changed = redact.redact(rest.header.source, record, out);
            has_changed |= is_changed;
            Batch::put_record(if is_changed { out.as_slice() } else { record }, changed);
            records += 1;
            if changed.len() >= CHANGED_BYTES_TARGET {
                break;
            }
        }
        if records == 0 {
            break;
        }
        let part = rest.split_off_first(records);
        take(if has_changed { part.with_records(changed) } else { part })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bbq_wire::batch::{BatchIdentity, BatchLimits};
    use bbq_wire::{BatchBuilder, Compression, StreamId};

    use super::*;

    /// Doubles what has a seven in it.
    struct Sevens;

    impl Redact for Sevens {
        fn redact(&self, _: SourceKind, record: &[u8], out: &mut Vec<u8>) -> bool {
            let has_seven = record.contains(&b'7');
            if has_seven {
                out.extend_from_slice(&record.repeat(2));
            }
            has_seven
        }
    }

    /// Shows a batch of the numbers from 0 on, numbered from 1 on, behind 100 other records of the group.
    fn shown(
        records: u64,
        is_hidden: impl Fn(u64) -> bool,
        redact: Option<Arc<dyn Redact>>,
    ) -> Vec<(u64, String)> {
        let mut builder = BatchBuilder::new();
        let mut hidden = Hidden::default();
        (0..100).for_each(|_| hidden.push(true));
        for number in 0..records {
            builder.push(number.to_string().as_bytes());
            hidden.push(is_hidden(number));
        }
        let identity = BatchIdentity {
            stream: StreamId([1; 16]),
            first_sequence: 1,
            base_time_ns: 0,
            source: SourceKind::Bbq,
            compression: Compression::None,
        };
        let mut scratch = Vec::new();
        let batch =
            Batch::verify(builder.finish(&identity).unwrap(), BatchLimits::FORMAT, &mut scratch).unwrap();
        let (mut found, mut count) = (Vec::new(), 0);
        let lens = Lens::new(hidden, redact);
        let Ok(all) = lens.show(100, batch, (&mut Vec::new(), &mut Vec::new()), &mut |part: Batch<'_>| {
            assert!(part.header.records > 0, "an empty part is shown");
            count += u64::from(part.header.records);
            let numbered = (part.header.first_sequence..).zip(part.records());
            found.extend(numbered.map(|(number, record)| (number, String::from_utf8_lossy(record).into())));
            Ok::<(), Infallible>(())
        });
        assert_eq!((all, found.len() as u64), (count, count));
        found
    }

    #[test]
    fn what_is_not_hidden_is_shown_with_its_number() {
        let predicates: [fn(u64) -> bool; 7] = [
            |_| false,
            |_| true,
            |number| number % 2 == 0,
            |number| number % 2 == 1,
            |number| number < 64,
            |number| (28..156).contains(&number),
            |number| number % 97 > 3,
        ];
        for records in [1, 27, 28, 29, 200, 1000] {
            for is_hidden in predicates {
                let expected = (0..records).filter(|number| !is_hidden(*number));
                let expected: Vec<_> = expected.map(|number| (number + 1, number.to_string())).collect();
                assert_eq!(shown(records, is_hidden, None), expected);
                let changed = expected.iter().map(|(number, text)| {
                    (*number, if text.contains('7') { text.repeat(2) } else { text.clone() })
                });
                assert_eq!(shown(records, is_hidden, Some(Arc::new(Sevens))), changed.collect::<Vec<_>>());
            }
        }
    }

    /// A pattern that matches everywhere may make a batch much larger.
    #[test]
    fn records_that_grow_are_shown_in_parts() {
        struct Large;
        impl Redact for Large {
            fn redact(&self, _: SourceKind, _: &[u8], out: &mut Vec<u8>) -> bool {
                out.resize(CHANGED_BYTES_TARGET / 3, b'x');
                true
            }
        }
        let found = shown(100, |number| number % 10 == 0, Some(Arc::new(Large)));
        assert_eq!(found.len(), 90);
        assert!(found.iter().all(|(_, text)| text.len() == CHANGED_BYTES_TARGET / 3));
    }
}
