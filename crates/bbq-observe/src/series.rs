//! Samples of some numbers over time, the newest at the end.

use std::collections::{BTreeMap, VecDeque};

/// A name, and how its values come about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// Of a counter: what it grew by, per second.
    Rate(&'static str),
    /// A number as it is.
    Level(&'static str),
}

#[derive(Debug)]
pub(crate) struct Series<const N: usize> {
    columns: &'static [Column; N],
    samples: VecDeque<[u64; N]>,
    /// What the next reading is compared with.
    last: [u64; N],
}

impl<const N: usize> Series<N> {
    /// Without samples: the first comes with the second reading.
    pub(crate) fn new(columns: &'static [Column; N], first: [u64; N]) -> Series<N> {
        Series { columns, samples: VecDeque::new(), last: first }
    }

    /// Adds `count` samples, all the same, for what has changed in that many seconds. Of more than `samples_max`, the oldest go.
    pub(crate) fn add(&mut self, reading: [u64; N], seconds: f64, count: usize, samples_max: usize) {
        let mut sample = reading;
        for (place, column) in self.columns.iter().enumerate() {
            if let Column::Rate(_) = column {
                // A counter goes back when a sink rolls back, or a reload removes a listener.
                let more = reading[place].saturating_sub(self.last[place]) as f64;
                sample[place] = (more / seconds.max(f64::MIN_POSITIVE)).round() as u64;
            }
        }
        self.last = reading;
        for _ in 0..count {
            if self.samples.len() >= samples_max {
                self.samples.pop_front();
            }
            self.samples.push_back(sample);
        }
    }

    /// Another counter is in this place now: what it has counted is no rate.
    pub(crate) fn begin_again(&mut self, place: usize, first: u64) {
        self.last[place] = first;
    }

    /// The newest `count` samples, or all, the oldest first.
    pub(crate) fn last(&self, count: usize) -> impl Iterator<Item = &[u64; N]> {
        self.samples.iter().skip(self.samples.len().saturating_sub(count))
    }

    /// The newest `count` samples, or all, by the name of their column, the oldest first.
    pub(crate) fn newest(&self, count: usize) -> BTreeMap<&'static str, Vec<u64>> {
        let skipped = self.samples.len().saturating_sub(count);
        let values = |place: usize| self.samples.iter().skip(skipped).map(|sample| sample[place]).collect();
        let named = self.columns.iter().enumerate().map(|(place, column)| {
            let (Column::Rate(name) | Column::Level(name)) = column;
            (*name, values(place))
        });
        named.collect()
    }
}
