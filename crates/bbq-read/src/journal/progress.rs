//! Where the next journalctl begins: at or before the first entry that is not on disk.
//!
//! Invariant: it is only a hint. A place that is too early costs time, as entries that are known are left out by their numbers.

use std::collections::BTreeMap;

use bbq_wire::StreamId;

use super::cursor::Place;

/// A batch that is not on disk.
#[derive(Clone, Copy, Debug)]
struct Batch {
    stream: StreamId,
    /// Its last number; the largest one while the batch is open.
    to: u64,
    /// Its first entry.
    place: Place,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// By the order in which their first entries were read.
    batches: BTreeMap<u64, Batch>,
    next: u64,
    /// The order of the first entry of this run of journalctl.
    run: u64,
    /// Where this run began.
    began: Place,
    /// The last entry that was read in this run.
    last: Option<Place>,
}

impl Progress {
    /// A run of journalctl begins here.
    pub(crate) fn begin_run(&mut self, place: Place) {
        (self.run, self.began, self.last) = (self.next, place, None);
    }

    /// An entry was read. Returns its order.
    pub(crate) fn read(&mut self, place: Place) -> u64 {
        self.last = Some(place);
        self.next += 1;
        self.next
    }

    /// The entry is the first one of a batch.
    pub(crate) fn begin_batch(&mut self, order: u64, stream: StreamId, place: Place) {
        self.batches.insert(order, Batch { stream, to: u64::MAX, place });
    }

    /// No entry is added to the open batch of this stream any more.
    pub(crate) fn end_batch(&mut self, stream: StreamId, to: u64) {
        let mut open = self.batches.values_mut();
        if let Some(batch) = open.find(|batch| batch.stream == stream && batch.to == u64::MAX) {
            batch.to = to;
        }
    }

    /// The batches of a stream up to this number are on disk.
    pub(crate) fn durable(&mut self, stream: StreamId, to: u64) {
        self.batches.retain(|_, batch| batch.stream != stream || batch.to > to);
    }

    /// The batches of a stream behind this number are read again.
    pub(crate) fn forget_behind(&mut self, stream: StreamId, to: u64) {
        self.batches.retain(|_, batch| batch.stream != stream || batch.to <= to);
    }

    /// Where the next run begins.
    pub(crate) fn place(&self) -> Place {
        match self.batches.first_key_value() {
            None => self.last.unwrap_or(self.began),
            // This run may have begun before an entry that an earlier run has read.
            Some((order, _)) if *order <= self.run => self.began,
            Some((_, batch)) => batch.place,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: StreamId = StreamId([1; 16]);
    const TWO: StreamId = StreamId([2; 16]);

    #[test]
    fn the_place_is_that_of_the_first_entry_that_is_not_on_disk() {
        let mut progress = Progress::default();
        progress.begin_run(Place::at_time(1));
        assert_eq!(progress.place(), Place::at_time(1));
        let order = progress.read(Place::at_time(10));
        assert_eq!(progress.place(), Place::at_time(10), "it was known");
        progress.begin_batch(order, ONE, Place::at_time(10));
        let order = progress.read(Place::at_time(11));
        progress.begin_batch(order, TWO, Place::at_time(11));
        progress.read(Place::at_time(12));
        progress.end_batch(ONE, 7);
        progress.end_batch(TWO, 3);
        progress.durable(TWO, 3);
        assert_eq!(progress.place(), Place::at_time(10));
        progress.durable(ONE, 6);
        assert_eq!(progress.place(), Place::at_time(10));
        progress.durable(ONE, 7);
        assert_eq!(progress.place(), Place::at_time(12));
    }

    #[test]
    fn a_run_that_began_earlier_counts_until_the_batches_of_the_one_before_are_on_disk() {
        let mut progress = Progress::default();
        progress.begin_run(Place::at_time(10));
        let order = progress.read(Place::at_time(10));
        progress.begin_batch(order, ONE, Place::at_time(10));
        progress.begin_run(Place::at_time(5));
        let order = progress.read(Place::at_time(6));
        progress.begin_batch(order, TWO, Place::at_time(6));
        assert_eq!(progress.place(), Place::at_time(5));
        progress.end_batch(ONE, 1);
        progress.durable(ONE, 1);
        assert_eq!(progress.place(), Place::at_time(6));
        progress.forget_behind(TWO, 0);
        assert_eq!(progress.place(), Place::at_time(6));
    }
}
