//! A verified batch in parts, for whoever makes much of each record and must not have too many at once.

use super::Batch;
use crate::varint;

/// Iterates the parts of a verified batch; see [`Batch::parts`].
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    /// What is left; no records at the end.
    rest: Batch<'a>,
    /// At least 1.
    records_max: u32,
}

impl<'a> Parts<'a> {
    pub(super) fn new(batch: Batch<'a>, records_max: u32) -> Parts<'a> {
        Parts { rest: batch, records_max: records_max.max(1) }
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Batch<'a>;

    fn next(&mut self) -> Option<Batch<'a>> {
        let left = self.rest.header.records;
        let mut part = self.rest.clone();
        if left <= self.records_max {
            self.rest.header.records = 0;
            return (left > 0).then_some(part);
        }
        let mut rest = self.rest.records;
        for _ in 0..self.records_max {
            // Verified: both succeed until the records end.
            let bytes = varint::take(&mut rest).unwrap_or(0) as usize;
            rest = rest.get(bytes..).unwrap_or_default();
        }
        let (records, rest) = self.rest.records.split_at(self.rest.records.len() - rest.len());
        part.records = records;
        part.header.records = self.records_max;
        part.header.records_bytes = records.len() as u32;
        self.rest.records = rest;
        self.rest.header.records -= self.records_max;
        self.rest.header.records_bytes = rest.len() as u32;
        self.rest.header.first_sequence += u64::from(self.records_max);
        self.rest.peers.pass_over(self.records_max);
        Some(part)
    }
}
