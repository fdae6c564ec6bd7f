//! Whether a mark was met.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::metric::Metric;
use crate::results::SectionResults;
use crate::section::Mark;
use crate::spread::Spread;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Met,
    /// Also if a single sample failed.
    Missed,
    /// The row or its floor was left out.
    NotMeasured,
}

/// A mark and what was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Judged {
    row: String,
    limit: f64,
    of: Option<String>,
    unit: &'static str,
    measured: Option<Spread>,
    beside: BTreeMap<String, Spread>,
    samples: usize,
    samples_failed: usize,
    pub(crate) verdict: Verdict,
}

impl Judged {
    pub(crate) fn of(mark: &Mark, results: &SectionResults<'_>) -> Judged {
        let values = |row: &String| Some(results.row(row)?.values(Metric::ServerCpu));
        let to = |other: &String| Some(ratios(&values(&mark.row)?, &values(other)?));
        let tried = match &mark.floor {
            Some(floor) => to(floor),
            None => values(&mark.row),
        };
        let tried = tried.unwrap_or_default();
        let counted: Vec<f64> = tried.iter().copied().flatten().collect();
        let (samples, samples_failed) = (counted.len(), tried.len() - counted.len());
        let measured = Spread::of(counted);
        let verdict = match measured {
            _ if tried.is_empty() => Verdict::NotMeasured,
            Some(spread) if samples_failed == 0 && spread.median <= mark.limit => Verdict::Met,
            _ => Verdict::Missed,
        };
        let beside = mark.beside.iter();
        let beside =
            beside.filter_map(|other| Some((other.clone(), Spread::of(to(other)?.into_iter().flatten())?)));
        Judged {
            row: mark.row.clone(),
            limit: mark.limit,
            of: mark.floor.clone(),
            unit: if mark.floor.is_some() { "times the floor, in each round" } else { "us of server CPU" },
            measured,
            beside: beside.collect(),
            samples,
            samples_failed,
            verdict,
        }
    }
}

fn ratios(upper: &[Option<f64>], lower: &[Option<f64>]) -> Vec<Option<f64>> {
    upper.iter().zip(lower).map(|(upper, lower)| Some((*upper)? / (*lower)?)).collect()
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Judged { row, limit, of, samples_failed, .. } = self;
        write!(f, "{row}: at most {limit}")?;
        match of {
            Some(floor) => write!(f, " times {floor}")?,
            None => write!(f, " us of server CPU")?,
        }
        if let Some(Spread { median, least, most }) = self.measured {
            write!(f, "; measured {median:.3} ({least:.3}-{most:.3})")?;
        }
        if *samples_failed > 0 {
            write!(f, ", {samples_failed} samples failed")?;
        }
        f.write_str(match self.verdict {
            Verdict::Met => ": met",
            Verdict::Missed => ": MISSED",
            Verdict::NotMeasured => ": not measured",
        })?;
        for (other, Spread { median, least, most }) in &self.beside {
            write!(f, "; {median:.2} ({least:.2}-{most:.2}) times {other}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::RowResults;
    use crate::sample::Sample;
    use crate::section::Section;

    /// The verdict on `ours`, at most twice the floor, or 2 us.
    fn verdict(floor: Option<&str>, rows: &[(&'static str, &[Option<f64>])]) -> Verdict {
        let sample = |cpu: &Option<f64>| {
            let mut sample = Sample::default();
            cpu.map(|cpu| {
                sample.set(Metric::ServerCpu, cpu);
                sample
            })
        };
        let row = |(name, samples): &(&'static str, &[Option<f64>])| RowResults {
            name,
            asked: None,
            samples: samples.iter().map(sample).collect(),
        };
        let section = Section::blank();
        let results = SectionResults { section: &section, rows: rows.iter().map(row).collect() };
        let mark =
            Mark { row: "ours".to_owned(), limit: 2.0, floor: floor.map(str::to_owned), beside: Vec::new() };
        let judged = Judged::of(&mark, &results);
        assert_eq!(judged.measured.is_some(), judged.samples > 0, "{judged}");
        judged.verdict
    }

    #[test]
    fn a_ratio_is_taken_within_each_round() {
        let floor: &[Option<f64>] = &[Some(1.0), Some(5.0), Some(9.0)];
        let ours: &[Option<f64>] = &[Some(2.0), Some(9.0), Some(19.0)];
        assert_eq!(verdict(Some("floor"), &[("floor", floor), ("ours", ours)]), Verdict::Met);
        let ours: &[Option<f64>] = &[Some(2.1), Some(11.0), Some(1.0)];
        assert_eq!(verdict(Some("floor"), &[("floor", floor), ("ours", ours)]), Verdict::Missed);
    }

    #[test]
    fn one_failed_sample_misses_it_and_a_row_that_is_left_out_is_not_measured() {
        assert_eq!(verdict(None, &[("ours", &[Some(1.0), Some(1.0)])]), Verdict::Met);
        assert_eq!(verdict(None, &[("ours", &[Some(1.0), None])]), Verdict::Missed);
        assert_eq!(verdict(None, &[("ours", &[None])]), Verdict::Missed);
        assert_eq!(verdict(None, &[("floor", &[Some(1.0)])]), Verdict::NotMeasured);
        assert_eq!(verdict(Some("floor"), &[("ours", &[Some(1.0)])]), Verdict::NotMeasured);
        assert_eq!(verdict(Some("floor"), &[("ours", &[Some(1.0)]), ("floor", &[None])]), Verdict::Missed);
    }
}
