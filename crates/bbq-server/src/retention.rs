//! When segments may go: once every sink has committed past them and the checkpoint of streams covers them.

use std::sync::{Arc, Mutex, PoisonError};

use bbq_spool::{LanePlace, Spool};
use tracing::warn;

use crate::streams::Streams;

/// The places that every sink has committed.
pub(crate) struct Retention {
    spool: Arc<Spool>,
    streams: Arc<Streams>,
    /// One row per sink, empty until its first commit.
    committed: Mutex<Vec<Vec<LanePlace>>>,
}

impl Retention {
    /// Without sinks nothing is ever deleted, but by drop-oldest.
    pub(crate) fn new(spool: Arc<Spool>, streams: Arc<Streams>, sinks: usize) -> Retention {
        Retention { spool, streams, committed: Mutex::new(vec![Vec::new(); sinks]) }
    }

    /// A sink has committed: deletes what nobody needs any more.
    pub(crate) fn commit(&self, sink: usize, places: Vec<LanePlace>) {
        let mut committed = self.committed.lock().unwrap_or_else(PoisonError::into_inner);
        committed[sink] = places;
        self.retire_passed(&committed);
    }

    /// Deletes what was passed before and could not go then: a segment is sealed only when the next one is needed, which may
    /// be after everybody has read and committed it.
    pub(crate) fn retire(&self) {
        self.retire_passed(&self.committed.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The lock is held to the end: two sinks that retire at once would check the same segments.
    fn retire_passed(&self, committed: &[Vec<LanePlace>]) {
        let passed: Vec<LanePlace> = passed_by_all(committed);
        if !self.spool.has_passed(&passed) {
            return;
        }
        match self.checkpoint() {
            Ok(covered) => self.spool.retire(&passed_by_all(&[passed, covered])),
            Err(error) => {
                warn!(%error, "cannot write the checkpoint of streams; segments that were read are kept")
            }
        }
    }

    /// Writes the checkpoint of streams; answers up to where it covers each lane.
    pub(crate) fn checkpoint(&self) -> std::io::Result<Vec<LanePlace>> {
        let settled = self.streams.settled();
        self.streams.checkpoint(&settled)?;
        Ok(settled)
    }

    /// Makes room for a listener that drops the oldest.
    pub(crate) fn drop_oldest(&self) -> bool {
        match self.checkpoint() {
            Ok(covered) => self.spool.drop_oldest(&covered),
            Err(error) => {
                warn!(%error, "cannot write the checkpoint of streams; the oldest segment is kept");
                false
            }
        }
    }
}

/// For each lane the least of the places; a lane that a row lacks is not passed at all.
fn passed_by_all(rows: &[Vec<LanePlace>]) -> Vec<LanePlace> {
    let Some((first, others)) = rows.split_first() else { return Vec::new() };
    let least = |place: &LanePlace| {
        let in_row = |row: &Vec<LanePlace>| {
            row.iter().find(|other| other.lane == place.lane).map_or(0, |other| other.position)
        };
        let position = others.iter().map(in_row).fold(place.position, u64::min);
        LanePlace { position, ..*place }
    };
    first.iter().map(least).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_every_sink_has_passed_is_passed() {
        let place = |lane, position| LanePlace { lane, position, record: 0 };
        let rows = [vec![place(0, 10), place(1, 20)], vec![place(1, 5), place(0, 30)]];
        assert_eq!(passed_by_all(&rows), vec![place(0, 10), place(1, 5)]);
        assert_eq!(passed_by_all(&[vec![place(0, 10)], vec![]]), vec![place(0, 0)]);
        assert!(passed_by_all(&[vec![], vec![place(0, 10)]]).is_empty());
    }
}
