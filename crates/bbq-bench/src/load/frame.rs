//! A batch that is sent again and again under new numbers: its records are encoded once, its header and checksum each time.
//! So the client costs little more than the checksum and the copy into the socket.

use anyhow::Context;
use bbq_wire::batch::{BatchIdentity, crc32c};
use bbq_wire::{BatchBuilder, Compression, SourceKind, StreamId};

// As `bbq_wire::batch` draws the header; the test reads what is written here.
const CRC: std::ops::Range<usize> = 4..8;
const FIRST_SEQUENCE: std::ops::Range<usize> = 32..40;

/// The bytes of one batch.
#[derive(Debug)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    records: u64,
}

impl Frame {
    /// `records` messages of `message_bytes` each, printable.
    pub(crate) fn new(stream: StreamId, records: u32, message_bytes: usize) -> anyhow::Result<Frame> {
        let message: Vec<u8> = (b'a'..=b'z').cycle().take(message_bytes).collect();
        let mut builder = BatchBuilder::new();
        for _ in 0..records {
            anyhow::ensure!(
                builder.has_room(message_bytes),
                "{records} times {message_bytes} bytes are no batch"
            );
            builder.push(&message);
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let bytes = builder.finish(&BatchIdentity {
            stream,
            first_sequence: 1,
            base_time_ns: u64::try_from(now.as_nanos()).unwrap_or(0),
            source: SourceKind::Bbq,
            compression: Compression::None,
        });
        Ok(Frame { bytes: bytes.context("a batch without records")?.to_vec(), records: u64::from(records) })
    }

    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// The batch, as it stands.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Makes it the batch whose first record has this number.
    pub(crate) fn number(&mut self, first_sequence: u64) {
        self.bytes[FIRST_SEQUENCE].copy_from_slice(&first_sequence.to_le_bytes());
        let crc = crc32c(&self.bytes[CRC.end..]);
        self.bytes[CRC].copy_from_slice(&crc.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbq_wire::batch::{Batch, BatchLimits};

    #[test]
    fn a_renumbered_frame_is_a_batch_with_that_number() {
        let mut frame = Frame::new(StreamId([7; 16]), 3, 100).unwrap();
        for first in [1, 4, u64::from(u32::MAX) + 9] {
            frame.number(first);
            let mut scratch = Vec::new();
            let batch = Batch::verify(frame.bytes(), BatchLimits::FORMAT, &mut scratch).unwrap();
            assert_eq!((batch.header.first_sequence, batch.header.records), (first, 3));
            assert_eq!(batch.records().next().map(<[u8]>::len), Some(100));
        }
    }
}
