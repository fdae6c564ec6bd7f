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
        Some(self.rest.split_at(records, end))
    }
}

#[cfg(test)]
mod tests {
    use super::super::builder::BatchIdentity;
    use super::super::view::BatchLimits;
    use crate::{Batch, BatchBuilder, Compression, Peer, SourceKind, StreamId};

    fn peer(number: u64) -> Peer {
        // Runs of three.
        Peer::Process { pid: (number / 3) as u32, uid: 7, gid: 8 }
    }

    fn records(batch: &Batch<'_>) -> Vec<(u64, String, Peer)> {
        let peers = batch.peers().flat_map(|(records, peer)| vec![peer; records as usize]);
        let numbered = (batch.header.first_sequence..).zip(batch.records()).zip(peers);
        numbered
            .map(|((number, record), peer)| (number, String::from_utf8_lossy(record).into(), peer))
            .collect()
    }

    /// Otherwise a sink that leaves messages out would give the others wrong numbers or senders.
    #[test]
    fn what_is_split_off_keeps_its_numbers_and_its_peers() {
        let mut builder = BatchBuilder::new();
        for number in 0..20 {
            builder.push_from("x".repeat(number as usize * 20).as_bytes(), peer(number));
        }
        let identity = BatchIdentity {
            stream: StreamId([1; 16]),
            first_sequence: 100,
            base_time_ns: 0,
            source: SourceKind::Bbq,
            compression: Compression::Lz4,
        };
        let bytes = builder.finish(&identity).unwrap().to_vec();
        let mut scratch = Vec::new();
        let batch = Batch::verify(&bytes, BatchLimits::FORMAT, &mut scratch).unwrap();
        let all = records(&batch);
        for cuts in [&[1, 1, 5, 0, 13][..], &[20], &[0, 19, 7], &[21]] {
            let (mut rest, mut found) = (batch.clone(), Vec::new());
            for &cut in cuts {
                let part = rest.split_off_first(cut);
                assert_eq!(part.records().count() as u32, part.header.records, "{cuts:?}");
                found.extend(records(&part));
            }
            assert_eq!((found, rest.header.records), (all.clone(), 0), "{cuts:?}");
        }
        let mut changed = Vec::new();
        let mut rest = batch.clone();
        let _first = rest.split_off_first(4);
        for record in rest.split_off_first(2).records() {
            Batch::put_record(&record[1..], &mut changed);
        }
        let part = batch.clone().split_off_first(2).with_records(&changed);
        assert_eq!(records(&part).iter().map(|(_, text, _)| text.len()).collect::<Vec<_>>(), [79, 99]);
    }
}
