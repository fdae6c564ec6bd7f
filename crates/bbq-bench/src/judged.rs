//! Whether a mark was met. What may be noise is not called missed.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::metric::Metric;
use crate::results::{ROUNDS_TO_BE_SURE, RowResults, SectionResults};
use crate::section::Mark;
use crate::spread::Spread;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Met,
    /// In every round, of enough rounds; or a sample failed.
    Missed,
    /// By the median, but not in every round, or in few rounds.
    LikelyMissed,
    /// By the median, while others used too much of the machine; or they did so while the floor was measured.
    Noisy,
    /// The row or its floor was left out.
    NotMeasured,
}

/// Whether others used too much of the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noise {
    pub(crate) of_row: bool,
    pub(crate) of_floor: bool,
}

impl Verdict {
    /// On what was measured in each round, `None` where a sample failed.
    pub(crate) fn of(tried: &[Option<f64>], limit: f64, noise: Noise) -> Verdict {
        let counted: Vec<f64> = tried.iter().copied().flatten().collect();
        let is_over = |value: &f64| *value > limit;
        let is_each_over = counted.len() >= ROUNDS_TO_BE_SURE && counted.iter().all(is_over);
        match Spread::of(counted.iter().copied()) {
            _ if tried.is_empty() => Verdict::NotMeasured,
            None => Verdict::Missed,
            Some(_) if counted.len() < tried.len() => Verdict::Missed,
            // Noise makes a floor higher, and what is compared with it lower.
            Some(_) if noise.of_floor => Verdict::Noisy,
            Some(spread) if spread.median <= limit => Verdict::Met,
            Some(_) if noise.of_row => Verdict::Noisy,
            Some(_) if is_each_over => Verdict::Missed,
            Some(_) => Verdict::LikelyMissed,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Met => f.write_str("met"),
            Verdict::Missed => f.write_str("MISSED"),
            Verdict::LikelyMissed => {
                write!(
                    f,
                    "likely missed (a round was within it, or there were fewer than {ROUNDS_TO_BE_SURE})"
                )
            }
            Verdict::Noisy => f.write_str("cannot tell, others used the machine too much"),
            Verdict::NotMeasured => f.write_str("not measured"),
        }
    }
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
        let is_noisy = |row: &String| results.row(row).is_some_and(RowResults::is_noisy);
        let noise =
            Noise { of_row: is_noisy(&mark.row), of_floor: mark.floor.as_ref().is_some_and(is_noisy) };
        let verdict = Verdict::of(&tried, mark.limit, noise);
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

/// Of each round; `None` where one of both failed.
pub(crate) fn ratios(upper: &[Option<f64>], lower: &[Option<f64>]) -> Vec<Option<f64>> {
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
        write!(f, ": {}", self.verdict)?;
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
        verdict_with_others(floor, rows, 0.0)
    }

    /// The same, while others use so many percent of the machine during rows that are not `ours`.
    fn verdict_with_others(
        floor: Option<&str>,
        rows: &[(&'static str, &[Option<f64>])],
        others: f64,
    ) -> Verdict {
        let sample = |name: &str, cpu: &Option<f64>| {
            let mut sample = Sample::default();
            cpu.map(|cpu| {
                sample.set(Metric::ServerCpu, cpu);
                sample.set(Metric::OthersBusy, if name == "ours" { 0.0 } else { others });
                sample
            })
        };
        let row = |(name, samples): &(&'static str, &[Option<f64>])| RowResults {
            name,
            asked: None,
            samples: samples.iter().map(|cpu| sample(name, cpu)).collect(),
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
        let floor: &[Option<f64>] = &[Some(1.0), Some(5.0), Some(9.0), Some(1.0), Some(2.0)];
        let ours: &[Option<f64>] = &[Some(2.0), Some(9.0), Some(19.0), Some(2.0), Some(4.1)];
        assert_eq!(verdict(Some("floor"), &[("floor", floor), ("ours", ours)]), Verdict::Met);
        let ours: &[Option<f64>] = &[Some(2.1), Some(11.0), Some(19.0), Some(3.0), Some(4.1)];
        assert_eq!(verdict(Some("floor"), &[("floor", floor), ("ours", ours)]), Verdict::Missed);
    }

    #[test]
    fn a_round_within_the_limit_or_few_rounds_or_noise_are_not_a_miss() {
        let over: &[Option<f64>] = &[Some(2.1); 5];
        let floor: &[Option<f64>] = &[Some(1.0); 5];
        assert_eq!(verdict(None, &[("ours", over)]), Verdict::Missed);
        assert_eq!(verdict(None, &[("ours", &over[..4])]), Verdict::LikelyMissed);
        let mut one_within = over.to_owned();
        one_within[3] = Some(2.0);
        assert_eq!(verdict(None, &[("ours", &one_within)]), Verdict::LikelyMissed);
        for (others, expected) in [(20.0, Verdict::Missed), (30.0, Verdict::Noisy)] {
            let rows: &[(&'static str, &[Option<f64>])] = &[("floor", floor), ("ours", over)];
            assert_eq!(verdict_with_others(Some("floor"), rows, others), expected);
            let rows: &[(&'static str, &[Option<f64>])] = &[("floor", floor), ("ours", &[Some(2.0); 5])];
            let expected = if expected == Verdict::Noisy { Verdict::Noisy } else { Verdict::Met };
            assert_eq!(verdict_with_others(Some("floor"), rows, others), expected);
        }
        for unsure in [Verdict::LikelyMissed, Verdict::Noisy, Verdict::NotMeasured] {
            assert!(!unsure.to_string().contains("MISSED"), "{unsure}");
        }
    }

    #[test]
    fn a_noisy_row_is_never_missed_by_its_figures() {
        for (of_row, of_floor) in [(true, false), (false, true), (true, true)] {
            let noise = Noise { of_row, of_floor };
            for over in [2.1, 9.0] {
                assert_eq!(Verdict::of(&[Some(over); 7], 2.0, noise), Verdict::Noisy, "{noise:?}");
            }
            // Noise adds to what a row costs. What it adds to the floor helps the row.
            let expected = if of_floor { Verdict::Noisy } else { Verdict::Met };
            assert_eq!(Verdict::of(&[Some(1.9); 7], 2.0, noise), expected, "{noise:?}");
            assert_eq!(Verdict::of(&[Some(1.9), None], 2.0, noise), Verdict::Missed, "a failure is no noise");
        }
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
