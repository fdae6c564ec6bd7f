//! Messages that a destination refuses for good, as batches that can be kept.

use bbq_spool::{Entry, Envelope};
use bbq_wire::{Batch, BatchHeader};

/// Consecutive messages of a group that were rejected with the same text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejected {
    /// The text of the destination, for people.
    pub why: String,
    /// The number of the first message, counted from the group's first message that can be read.
    pub first: u64,
    pub records: u64,
}

/// A batch of rejected messages.
#[derive(Debug)]
pub struct DeadLetter {
    /// The name of the listener.
    pub source: String,
    /// What the server adds to each batch.
    pub envelope: Envelope,
    /// Of the batch.
    pub header: BatchHeader,
    /// A batch with the rejected records alone.
    pub batch: Vec<u8>,
}

/// Makes dead letters from the batches of a group, which it takes in order.
pub(crate) struct Collector<'a> {
    /// The rejected messages that are still to come, in order.
    rejected: &'a [Rejected],
    /// Records of the group before the next batch.
    passed: u64,
    letters: Vec<DeadLetter>,
}

impl<'a> Collector<'a> {
    /// `rejected` is in order. `passed` is the number of records of the group before the first batch that will be taken.
    pub(crate) fn new(rejected: &'a [Rejected], passed: u64) -> Collector<'a> {
        Collector { rejected, passed, letters: Vec::new() }
    }

    /// Whether nothing more is to be taken.
    pub(crate) fn is_done(&self) -> bool {
        self.rejected.is_empty()
    }

    /// Takes the rejected messages of the next batch.
    pub(crate) fn take(&mut self, entry: &Entry<'_>) {
        let mut at = self.passed;
        self.passed += u64::from(entry.batch.header.records);
        let mut rest = entry.batch.clone();
        // Both are within the batch, whose number of records is a `u32`.
        let mut split_off = |records: u64| rest.split_off_first(u32::try_from(records).unwrap_or(u32::MAX));
        while let Some((rejected, others)) = self.rejected.split_first()
            && rejected.first < self.passed
        {
            let end = rejected.first + rejected.records;
            let first = rejected.first.max(at);
            let _taken = split_off(first - at);
            at = end.min(self.passed).max(first);
            put_letters(entry, split_off(at - first), &rejected.why, &mut self.letters);
            if end > self.passed {
                break;
            }
            self.rejected = others;
        }
    }

    pub(crate) fn into_letters(self) -> Vec<DeadLetter> {
        self.letters
    }
}

/// Puts messages of an entry into one letter, or into several: the text of the rejection may make a batch of the largest size too large.
fn put_letters(entry: &Entry<'_>, mut part: Batch<'_>, why: &str, letters: &mut Vec<DeadLetter>) {
    let mut batch = Vec::new();
    part.append_split_off(Some(why), &mut batch);
    if let Ok(Some(header)) = Batch::peek(&batch) {
        letters.push(DeadLetter { source: entry.source.to_owned(), envelope: entry.envelope, header, batch });
    } else if part.header.records > 1 {
        let half = part.split_off_first(part.header.records / 2);
        put_letters(entry, half, why, letters);
        put_letters(entry, part, why, letters);
    }
    // A single message is always small enough.
}

#[cfg(test)]
mod tests {
    use bbq_spool::NameMark;
    use bbq_wire::batch::{BatchIdentity, BatchLimits, Detail, Output};
    use bbq_wire::{BatchBuilder, Compression, Peer, SourceKind, StreamId};

    use super::*;

    fn rejected(why: &str, first: u64, records: u64) -> Rejected {
        Rejected { why: why.to_owned(), first, records }
    }

    /// Otherwise what a reader knows of a message is lost when its dead letter is sent again.
    #[test]
    fn a_letter_keeps_the_fields_of_its_messages() {
        let mut builder = BatchBuilder::new();
        builder.set_fields([("file.path", "/var/log/a")].into_iter());
        for number in 0..5_u64 {
            builder.push(b"x");
            builder.set_detail(Detail { time_ns: number, output: Output::Stdout });
            builder.set_record_fields([("unit", number.to_string().as_str())].into_iter());
        }
        let identity = BatchIdentity {
            stream: StreamId([3; 16]),
            first_sequence: 1,
            base_time_ns: 7,
            source: SourceKind::Lines,
            compression: Compression::Lz4,
        };
        let bytes = builder.finish(&identity).unwrap().to_vec();
        let mut scratch = Vec::new();
        let batch = Batch::verify(&bytes, BatchLimits::FORMAT, &mut scratch).unwrap();
        let envelope =
            Envelope { source: 5, received_ns: 9, peer: Peer::Unnamed, name_mark: NameMark::NOBODY };
        let all = [rejected("a", 1, 2), rejected("b", 4, 9)];
        let mut collector = Collector::new(&all, 0);
        collector.take(&Entry { lane: 2, source: "files", envelope, batch, parser: None });
        assert!(!collector.is_done());
        let letters = collector.into_letters();
        for (letter, (why, numbers)) in letters.iter().zip([("a", 1..3), ("b", 4..5)]) {
            let mut scratch = Vec::new();
            let batch = Batch::verify(&letter.batch, BatchLimits::FORMAT, &mut scratch).unwrap();
            assert_eq!((batch.rejection(), batch.header.first_sequence), (Some(why), 1 + numbers.start));
            assert!(batch.fields().eq([("file.path", "/var/log/a")]));
            assert!(batch.details().map(|detail| detail.time_ns).eq(numbers.clone()));
            let units: Vec<String> =
                batch.record_fields().flatten().map(|(_, unit)| unit.to_owned()).collect();
            assert_eq!(units, numbers.map(|number| number.to_string()).collect::<Vec<_>>());
        }
        assert_eq!(letters.len(), 2);
    }

    #[test]
    fn each_rejected_message_is_in_a_letter_with_its_number_and_its_peer() {
        let peer = |number: u64| Peer::Inet(([127, 0, 0, 1], 1000 + number as u16).into());
        // Ten messages each, numbered from 101 and from 111; the messages of the second have no peers of their own.
        let batches = [0, 10].map(|first: u64| {
            let mut builder = BatchBuilder::new();
            for number in first..first + 10 {
                let record = number.to_string();
                match first {
                    0 => builder.push_from(record.as_bytes(), peer(number)),
                    _ => builder.push(record.as_bytes()),
                }
            }
            let identity = BatchIdentity {
                stream: StreamId([3; 16]),
                first_sequence: 101 + first,
                base_time_ns: 7,
                source: SourceKind::Lines,
                compression: Compression::Lz4,
            };
            builder.finish(&identity).unwrap().to_vec()
        });
        let all = [rejected("a", 1, 2), rejected("b", 3, 1), rejected("c", 8, 4), rejected("d", 19, 1)];
        let mut collector = Collector::new(&all, 0);
        for bytes in &batches {
            let mut scratch = Vec::new();
            let batch = Batch::verify(bytes, BatchLimits::FORMAT, &mut scratch).unwrap();
            let envelope =
                Envelope { source: 5, received_ns: 9, peer: peer(77), name_mark: NameMark::NOBODY };
            collector.take(&Entry { lane: 2, source: "the listener", envelope, batch, parser: None });
        }
        let mut found = Vec::new();
        for letter in collector.into_letters() {
            let mut scratch = Vec::new();
            let batch = Batch::verify(&letter.batch, BatchLimits::FORMAT, &mut scratch).unwrap();
            assert_eq!((letter.source.as_str(), letter.envelope.received_ns), ("the listener", 9));
            assert_eq!((batch.header, batch.header.stream), (letter.header, StreamId([3; 16])));
            let peers: Vec<Peer> =
                batch.peers().flat_map(|(records, peer)| vec![peer; records as usize]).collect();
            for (index, record) in batch.records().enumerate() {
                let number: u64 = std::str::from_utf8(record).unwrap().parse().unwrap();
                assert_eq!(batch.header.first_sequence + index as u64, 101 + number);
                assert_eq!(peers.get(index).copied(), (number < 10).then(|| peer(number)));
                found.push((number, batch.rejection().unwrap().to_owned()));
            }
        }
        let expected = [(1, "a"), (2, "a"), (3, "b"), (8, "c"), (9, "c"), (10, "c"), (11, "c"), (19, "d")];
        assert_eq!(found, expected.map(|(number, why)| (number, why.to_owned())));
    }
}
