//! Batches whose every record can be recognised: it is made from the stream and the sequence number.

use bbq_spool::{Entry, Envelope, Lane, LaneError, NameMark};
use bbq_wire::batch::BatchIdentity;
use bbq_wire::{Batch, BatchBuilder, Compression, Peer, SourceKind, StreamId};

use super::Random;

/// A batch, by what it was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) stream: u8,
    pub(crate) first: u64,
    pub(crate) records: u32,
    /// Bytes of each record, about.
    pub(crate) size: usize,
    pub(crate) source: u16,
    pub(crate) compression: Compression,
}

/// A plain batch of ten records.
pub(crate) fn made(first: u64, size: usize) -> Made {
    Made { stream: 1, first, records: 10, size, source: 0, compression: Compression::None }
}

fn record(stream: u8, sequence: u64, size: usize) -> Vec<u8> {
    let mut record = format!("{stream} {sequence} {size} ").into_bytes();
    let mut random = Random::new(sequence.wrapping_mul(257) + u64::from(stream));
    while record.len() < size {
        record.extend_from_slice(&random.next().to_le_bytes());
    }
    record
}

impl Made {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut builder = BatchBuilder::new();
        for index in 0..u64::from(self.records) {
            builder.push(&record(self.stream, self.first + index, self.size));
        }
        let identity = BatchIdentity {
            stream: StreamId([self.stream; 16]),
            first_sequence: self.first,
            base_time_ns: 7,
            source: if self.source == 0 { SourceKind::Bbq } else { SourceKind::Lines },
            compression: self.compression,
        };
        builder.finish(&identity).unwrap().to_vec()
    }

    pub(crate) fn append(&self, lane: &Lane, urgent: bool) -> Result<u64, LaneError> {
        let bytes = self.bytes();
        let header = Batch::peek(&bytes).unwrap().unwrap();
        let envelope = Envelope {
            source: self.source,
            received_ns: self.first,
            peer: Peer::Unnamed,
            name_mark: NameMark::NOBODY,
        };
        lane.append(&envelope, &header, &bytes, urgent)
    }
}

/// What an entry was made of, every byte of it compared.
pub(crate) fn read_entry(entry: &Entry<'_>) -> Made {
    let header = &entry.batch.header;
    let stream = header.stream.0[0];
    let mut size = 0;
    let mut sequence = header.first_sequence;
    for read in entry.batch.records() {
        let text = String::from_utf8_lossy(read);
        size = text.split(' ').nth(2).unwrap().parse().unwrap();
        assert_eq!(read, record(stream, sequence, size), "stream {stream} sequence {sequence}");
        sequence += 1;
    }
    assert_eq!(sequence, header.first_sequence + u64::from(header.records));
    assert_eq!(entry.envelope.received_ns, header.first_sequence);
    let source = u16::from(header.source != SourceKind::Bbq);
    if !entry.source.is_empty() {
        assert_eq!(entry.source, ["bbq", "lines"][usize::from(source)]);
    }
    let (records, first, compression) = (header.records, header.first_sequence, header.compression);
    Made { stream, first, records, size, source, compression }
}
