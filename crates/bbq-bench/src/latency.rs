//! How long operations took: a histogram for each thread of the load, and their sum.

use std::time::Duration;

use anyhow::Context;
use hdrhistogram::Histogram;

use crate::metric::Metric;
use crate::sample::Sample;

/// A longer latency counts as this long. No load waits longer.
const LONGEST: Duration = Duration::from_secs(60);
/// Longer than anybody should wait: behind a blocked worker, or for the second try of a full accept queue.
const LATE: Duration = Duration::from_millis(100);
/// How many digits of a latency are kept.
const DIGITS: u8 = 3;

/// Latencies in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Latency(Histogram<u64>);

impl Latency {
    pub(crate) fn new() -> anyhow::Result<Latency> {
        let histogram = Histogram::new_with_bounds(1, nanoseconds(LONGEST), DIGITS).context("a histogram")?;
        Ok(Latency(histogram))
    }

    #[inline]
    pub(crate) fn record(&mut self, took: Duration) {
        self.0.saturating_record(nanoseconds(took).max(1));
    }

    /// Takes in what another thread recorded.
    pub(crate) fn add(&mut self, other: &Latency) {
        // Both have the same bounds, so nothing is refused.
        let _ = self.0.add(&other.0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Puts the figures into a sample, in microseconds.
    pub(crate) fn describe(&self, sample: &mut Sample) {
        if self.0.is_empty() {
            return;
        }
        let micros = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
        sample.set(Metric::LatencyMean, self.0.mean() / 1000.0);
        sample.set(Metric::LatencyP50, micros(self.0.value_at_quantile(0.5)));
        sample.set(Metric::LatencyP99, micros(self.0.value_at_quantile(0.99)));
        sample.set(Metric::LatencyP999, micros(self.0.value_at_quantile(0.999)));
        sample.set(Metric::LatencyMax, micros(self.0.max()));
        sample.set(Metric::LatencyStdev, self.0.stdev() / 1000.0);
        for (metric, limit) in [(Metric::Over20, 20), (Metric::Over50, 50)] {
            let within = self.0.count_between(0, nanoseconds(Duration::from_millis(limit)));
            sample.set(metric, (self.0.len() - within) as f64);
        }
        sample.set(Metric::Late, 100.0 - self.0.percentile_below(nanoseconds(LATE)));
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_thousand_known_latencies() {
        let (mut first, mut second) = (Latency::new().unwrap(), Latency::new().unwrap());
        for micros in 1..=1000 {
            let half = if micros % 2 == 0 { &mut first } else { &mut second };
            half.record(Duration::from_micros(micros));
        }
        first.add(&second);
        assert_eq!(first.count(), 1000);
        let mut sample = Sample::default();
        first.describe(&mut sample);
        let near = |metric, expected: f64| {
            let value = sample.value(metric).unwrap();
            assert!((value - expected).abs() <= expected / 500.0, "{metric:?} is {value}");
        };
        near(Metric::LatencyP50, 500.0);
        near(Metric::LatencyP99, 990.0);
        near(Metric::LatencyP999, 999.0);
        near(Metric::LatencyMax, 1000.0);
        near(Metric::LatencyMean, 500.5);
        near(Metric::LatencyStdev, 288.7);
        near(Metric::Late, 0.0);
    }

    #[test]
    fn those_over_100_ms_are_a_part_of_all() {
        let mut latency = Latency::new().unwrap();
        (0..75).for_each(|_| latency.record(LATE / 2));
        (0..25).for_each(|_| latency.record(LATE * 2));
        let mut sample = Sample::default();
        latency.describe(&mut sample);
        assert_eq!(sample.value(Metric::Late), Some(25.0));
    }

    #[test]
    fn those_over_20_and_50_ms_are_counted() {
        let mut latency = Latency::new().unwrap();
        [1, 19, 21, 49, 51, 3000]
            .into_iter()
            .for_each(|millis| latency.record(Duration::from_millis(millis)));
        let mut sample = Sample::default();
        latency.describe(&mut sample);
        assert_eq!((sample.value(Metric::Over20), sample.value(Metric::Over50)), (Some(4.0), Some(2.0)));
    }

    #[test]
    fn nothing_recorded_is_no_figure() {
        let mut sample = Sample::default();
        Latency::new().unwrap().describe(&mut sample);
        assert!(sample.figures.is_empty());
    }
}
