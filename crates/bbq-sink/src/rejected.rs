//! Messages that a destination refuses for good, as batches that can be kept.

use bbq_spool::{Entry, Envelope};
use bbq_wire::batch::BatchIdentity;
use bbq_wire::{Batch, BatchBuilder, BatchHeader, Compression};

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
        let begin = self.passed;
        self.passed += u64::from(entry.batch.header.records);
        let mut records = entry.batch.records();
        // A batch has peers for all of its records or for none.
        let mut peers =
            entry.batch.peers().flat_map(|(records, peer)| std::iter::repeat_n(peer, records as usize));
        let mut next = || (records.next(), peers.next());
        let mut at = begin;
        while let Some((rejected, others)) = self.rejected.split_first()
            && rejected.first < self.passed
        {
            let end = rejected.first + rejected.records;
            let mut letter = Letter::new(entry, &rejected.why);
            while at < end.min(self.passed) {
                let (Some(record), peer) = next() else { break };
                if at >= rejected.first {
                    // The text of the rejection may make a batch of the largest size too large.
                    if !letter.builder.has_room(record.len()) {
                        self.letters.extend(letter.finish());
                        letter = Letter::new(entry, &rejected.why);
                    }
                    if letter.builder.is_empty() {
                        letter.skipped = at - begin;
                    }
                    match peer {
                        Some(peer) => letter.builder.push_from(record, peer),
                        None => letter.builder.push(record),
                    }
                }
                at += 1;
            }
            self.letters.extend(letter.finish());
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

/// A dead letter that is being made.
struct Letter<'a> {
    entry: &'a Entry<'a>,
    why: &'a str,
    /// Records of the entry before the first record of the letter.
    skipped: u64,
    builder: BatchBuilder,
}

impl<'a> Letter<'a> {
    fn new(entry: &'a Entry<'a>, why: &'a str) -> Letter<'a> {
        Letter { entry, why, skipped: 0, builder: BatchBuilder::new() }
    }

    /// `None` if it is empty.
    fn finish(mut self) -> Option<DeadLetter> {
        self.builder.set_rejection(self.why);
        if let Some(origin) = self.entry.batch.origin() {
            self.builder.set_origin(&origin);
        }
        let BatchHeader { stream, first_sequence, base_time_ns, source, .. } = self.entry.batch.header;
        let identity = BatchIdentity {
            stream,
            first_sequence: first_sequence + self.skipped,
            base_time_ns,
            source,
            compression: Compression::None,
        };
        let (batch, _) = self.builder.into_batch(&identity)?;
        let header = Batch::peek(&batch).ok().flatten()?;
        let (source, envelope) = (self.entry.source.to_owned(), self.entry.envelope);
        Some(DeadLetter { source, envelope, header, batch })
    }
}

#[cfg(test)]
mod tests {
    use bbq_spool::NameMark;
    use bbq_wire::batch::BatchLimits;
    use bbq_wire::{Peer, SourceKind, StreamId};

    use super::*;

    fn rejected(why: &str, first: u64, records: u64) -> Rejected {
        Rejected { why: why.to_owned(), first, records }
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
