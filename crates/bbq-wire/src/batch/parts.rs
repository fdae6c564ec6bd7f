//! A verified batch in parts, for code that needs much memory for each record.

use super::view::Batch;
use crate::varint;

/// Iterates the parts of a verified batch; see [`Batch::parts`].
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    /// The rest of the batch; empty at the end.
    rest: Batch<'a>,
    /// At least 1.
    records_max: u32,
    /// Bytes with the length prefixes. The first record of a part may be larger.
    bytes_max: usize,
}

impl<'a> Batch<'a> {
    /// The same records in batches of at most `records_max` records and `bytes_max` bytes, unless one record is larger: for code
    /// that needs much memory for each record. The checksums and body sizes of the parts are not valid.
    #[must_use]
    pub fn parts(&self, records_max: u32, bytes_max: usize) -> Parts<'a> {
        Parts { rest: self.clone(), records_max: records_max.max(1), bytes_max }
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Batch<'a>;

    fn next(&mut self) -> Option<Batch<'a>> {
        let left = self.rest.header.records;
        if left == 0 {
            return None;
        }
        let all = self.rest.records;
        let (mut records, mut end) = (0, 0);
        while records < left.min(self.records_max) {
            let mut rest = &all[end..];
            // Verified: both succeed until the records end.
            let bytes = varint::take(&mut rest).unwrap_or(0) as usize;
            let next = all.len() - rest.get(bytes..).unwrap_or_default().len();
            if records > 0 && next > self.bytes_max {
                break;
            }
            (records, end) = (records + 1, next);
        }
        let mut part = self.rest.clone();
        let (taken, rest) = all.split_at(end);
        part.records = taken;
        part.header.records = records;
        part.header.records_bytes = taken.len() as u32;
        self.rest.records = rest;
        self.rest.header.records -= records;
        self.rest.header.records_bytes = rest.len() as u32;
        self.rest.header.first_sequence += u64::from(records);
        self.rest.peers.pass_over(records);
        self.rest.details.pass_over(records);
        Some(part)
    }
}
