//! The results of a run: the samples of each row, and the figures that they give.

use crate::metric::Metric;
use crate::sample::Sample;
use crate::section::{Asked, Section};
use crate::spread::Spread;

/// Above this share, other programs on the machine decide the figures.
pub(crate) const OTHERS_PERCENT_MAX: f64 = 25.0;
/// A load generator that is busier than this goes no faster: the rate is its own limit.
const CLIENT_BUSY_MAX: f64 = 90.0;
/// With fewer rounds luck is not told from merit: four wins of four are luck once in 16 times.
pub(crate) const ROUNDS_TO_BE_SURE: usize = 5;
/// Whoever finds the queue of a listening socket full tries again after this time (`TCP_TIMEOUT_INIT` of net/tcp.h).
const RETRY_US: f64 = 1e6;
/// The part of the requested rate that a row must reach. It allows for the start and the end of a second, and no more.
const RATE_REACHED_MIN: f64 = 0.95;

/// The samples of one row, one for each round; `None` where the row failed.
#[derive(Debug)]
pub(crate) struct RowResults<'a> {
    pub(crate) name: &'a str,
    pub(crate) asked: Option<Asked>,
    pub(crate) samples: Vec<Option<Sample>>,
}

impl RowResults<'_> {
    pub(crate) fn values(&self, metric: Metric) -> Vec<Option<f64>> {
        self.samples.iter().map(|sample| sample.as_ref()?.value(metric)).collect()
    }

    pub(crate) fn spread(&self, metric: Metric) -> Option<Spread> {
        Spread::of(self.values(metric).into_iter().flatten())
    }

    /// Whether other programs used too much of the machine in at least half of the rounds.
    pub(crate) fn is_noisy(&self) -> bool {
        self.spread(Metric::OthersBusy).is_some_and(|others| others.median > OTHERS_PERCENT_MAX)
    }

    /// Whether the load was the limit in at least half of the rounds.
    pub(crate) fn is_limited_by_load(&self) -> bool {
        self.spread(Metric::ClientBusy).is_some_and(|busy| busy.median > CLIENT_BUSY_MAX)
    }

    /// Whether the queue of a listening socket was full in at least half of the rounds, so that connections were made at a second
    /// try: the longest latencies, and with them the rate, are those of the retries.
    pub(crate) fn has_retries(&self) -> bool {
        let median = |metric| self.spread(metric).map(|spread| spread.median);
        median(Metric::QueueOverflows).is_some_and(|overflows| overflows > 0.0)
            && median(Metric::LatencyMax).is_none_or(|longest| longest >= RETRY_US)
    }

    /// Whether the row missed the requested rate in at least half of the rounds.
    pub(crate) fn falls_short(&self) -> bool {
        self.asked.is_some_and(|Asked { per_second, figure }| {
            self.spread(figure).is_some_and(|rate| rate.median < per_second * RATE_REACHED_MIN)
        })
    }
}

/// The results of a section.
pub(crate) struct SectionResults<'a> {
    pub(crate) section: &'a Section,
    pub(crate) rows: Vec<RowResults<'a>>,
}

impl<'a> SectionResults<'a> {
    /// The row of this name.
    pub(crate) fn row(&self, name: &str) -> Option<&RowResults<'a>> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// The ratio of `row` to the section's baseline, within each round.
    pub(crate) fn ratio(&self, row: usize) -> Option<Spread> {
        let (baseline, metric) = self.section.baseline?;
        Spread::of_ratios(&self.rows[row].values(metric), &self.rows[baseline].values(metric))
    }
}

/// Everything that was measured.
pub(crate) struct Results<'a> {
    pub(crate) sections: Vec<SectionResults<'a>>,
    pub(crate) failures: Vec<String>,
}

impl<'a> Results<'a> {
    /// The first row of this name.
    pub(crate) fn row(&self, name: &str) -> Option<&RowResults<'a>> {
        self.sections.iter().find_map(|section| section.row(name))
    }
}

/// How far a run came.
pub(crate) struct Measured<'a> {
    /// The results of the complete rounds.
    pub(crate) results: Results<'a>,
    pub(crate) rounds: u32,
    /// The signal that ended the run early.
    pub(crate) signal: Option<u8>,
}
