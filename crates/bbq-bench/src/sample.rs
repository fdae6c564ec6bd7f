//! What one measurement of one row brought.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::metric::Metric;

/// Figures, by metric; those that a row does not have are not there.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Sample {
    pub(crate) figures: BTreeMap<Metric, f64>,
    /// Operations, or connections, of each worker, where the server says so.
    pub(crate) shares: Vec<u64>,
}

impl Sample {
    pub(crate) fn set(&mut self, metric: Metric, value: f64) {
        self.figures.insert(metric, value);
    }

    pub(crate) fn value(&self, metric: Metric) -> Option<f64> {
        self.figures.get(&metric).copied()
    }

    /// Keeps what each worker had, and how much the busiest.
    pub(crate) fn set_shares(&mut self, shares: Vec<u64>) {
        let sum: u64 = shares.iter().sum();
        if let Some(largest) = shares.iter().max().filter(|_| sum > 0) {
            self.set(Metric::LargestShare, *largest as f64 * 100.0 / sum as f64);
        }
        self.shares = shares;
    }
}
