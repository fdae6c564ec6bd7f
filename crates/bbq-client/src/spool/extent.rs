//! Records that are read, and sent, together.

use std::io;
use std::sync::Arc;

use super::reader::{Item, Reader};
use super::segment::Segment;

/// Consecutive records of one segment.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(super) segment: Arc<Segment>,
    pub(super) offset: u64,
    /// Number of its first record.
    pub(crate) first: u64,
    pub(crate) records: u32,
}

impl Extent {
    pub(crate) fn with_records(self, records: u32) -> Extent {
        Extent { records, ..self }
    }

    pub(crate) fn last(&self) -> u64 {
        self.first + u64::from(self.records) - 1
    }

    /// Reads the records from number `from` on.
    pub(crate) fn read(&self, from: u64, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let mut reader = Reader::new(&self.segment, self.offset, self.first);
        for sequence in self.first..=self.last() {
            let Item::Record(record) = reader.next()? else {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{}: record {sequence} is damaged", self.segment.path.display()),
                ));
            };
            if sequence >= from {
                take(record);
            }
        }
        Ok(())
    }
}
