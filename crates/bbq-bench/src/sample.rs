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
    /// Microseconds an operation since its start, of the server's threads that lived at the end.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) server_cpu_us_by_thread: BTreeMap<String, f64>,
    /// What a server that has ended said of each worker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) workers: Vec<String>,
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

    /// Keeps the lines `worker N: ...` that a server has printed at its end, and what each worker had: its requests, or else the
    /// first figure.
    pub(crate) fn set_workers(&mut self, said: &str) {
        let lines = said.lines().filter(|line| line.starts_with("worker "));
        self.workers = lines.map(str::to_owned).collect();
        let share = |line: &String| {
            let words: Vec<&str> = line.split(' ').skip(2).collect();
            let requests = words.iter().position(|word| word.starts_with("requests")).unwrap_or(1);
            words.get(requests.checked_sub(1)?)?.parse().ok()
        };
        let shares = self.workers.iter().map(share).collect::<Option<_>>();
        self.set_shares(shares.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_workers_had_is_read_from_what_their_server_says() {
        let mut sample = Sample::default();
        sample.set_workers(
            "listening on x\nworker 0: 3 connections, 10 requests\nworker 1: 4 connections, 30 requests\n",
        );
        assert_eq!((&sample.shares[..], sample.value(Metric::LargestShare)), (&[10, 30][..], Some(75.0)));
        sample.set_workers("worker 0: 5 greetings, 1 cut\n");
        assert_eq!(sample.shares, [5]);
    }
}
