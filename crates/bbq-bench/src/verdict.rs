//! Which of several rows to choose over several sections, and how sure that is.
//!
//! In each round, a row's score is the geometric mean over the sections of its figure as a part of the best one's. So a
//! section counts as much as another whatever its figures are, and what the machine did in a round meets all rows alike.

use crate::metric::Metric;
use crate::run::{Results, RowResults};
use crate::spread::Spread;

/// Closer than this is no difference that anybody would notice.
const SAME: f64 = 0.03;
/// With fewer rounds luck is not told from merit: four wins of four are luck once in 16 times.
const ROUNDS_TO_BE_SURE: usize = 5;

/// By rate, and between those that have the same by latency. The rows must be the same in every section; `otherwise` is what
/// to do when it cannot be told.
pub(crate) fn choose(results: &Results<'_>, otherwise: &str) -> Vec<String> {
    let by_rate = ranking(results, Metric::Rate, |rate| rate);
    let by_latency = ranking(results, Metric::LatencyP99, f64::recip);
    let [best, second, ..] = &by_rate[..] else {
        return vec!["Too little was measured to choose.".to_owned()];
    };
    let ratio = Spread::of_ratios(&best.scores, &second.scores);
    let both = best.scores.iter().zip(&second.scores);
    let rounds: Vec<bool> = both.filter_map(|(one, other)| Some((*one)? > (*other)?)).collect();
    let wins = rounds.iter().filter(|won| **won).count();
    let mut lines = vec![
        format!("Rate, as a part of the best one's over all sections: {}.", list(&by_rate)),
        format!("p99 latency, likewise, more is shorter: {}.", list(&by_latency)),
    ];
    let (name, other) = (best.name, second.name);
    let percent = SAME * 100.0;
    lines.push(if is_noisy(results) {
        format!("Cannot tell: others used the machine too much. Repeat it on a quiet one; until then, {otherwise}.")
    } else if ratio.is_none_or(|ratio| ratio.median < 1.0 + SAME) {
        let shorter = by_latency.iter().find(|row| row.name == name || row.name == other).map_or(name, |row| row.name);
        format!(
            "Choose {shorter}: the rates of {name} and {other} differ by less than {percent:.0} %, and it has the shorter p99."
        )
    } else if wins < rounds.len() {
        let all = rounds.len();
        format!("Choose {name}, likely: it won {wins} of {all} rounds against {other}. More --rounds would tell.")
    } else if rounds.len() < ROUNDS_TO_BE_SURE {
        format!("Choose {name}, likely: it won every round; {ROUNDS_TO_BE_SURE} of them would make it sure.")
    } else {
        let luck = 1_u64 << rounds.len().min(62);
        format!("Choose {name}: it won every round against {other}, as luck does once in {luck} times.")
    });
    lines
}

/// A row with its score in each round, none where it failed.
struct Ranked<'a> {
    name: &'a str,
    scores: Vec<Option<f64>>,
    median: f64,
}

/// The best first. `worth` makes more of what is better.
fn ranking<'a>(results: &Results<'a>, metric: Metric, worth: fn(f64) -> f64) -> Vec<Ranked<'a>> {
    let Some(first) = results.sections.first() else { return Vec::new() };
    let rank = |(row, named): (usize, &RowResults<'a>)| {
        let rounds = 0..named.samples.len();
        let scores: Vec<Option<f64>> =
            rounds.map(|round| score(results, metric, worth, row, round)).collect();
        let median = Spread::of(scores.iter().copied().flatten())?.median;
        Some(Ranked { name: named.name, scores, median })
    };
    let mut ranked: Vec<Ranked<'a>> = first.rows.iter().enumerate().filter_map(rank).collect();
    ranked.sort_by(|one, other| other.median.total_cmp(&one.median));
    ranked
}

fn score(
    results: &Results<'_>,
    metric: Metric,
    worth: fn(f64) -> f64,
    row: usize,
    round: usize,
) -> Option<f64> {
    let mut sum = 0.0;
    for section in &results.sections {
        let value = |row: usize| section.rows[row].samples.get(round)?.as_ref()?.value(metric).map(worth);
        let best = (0..section.rows.len()).filter_map(value).fold(0.0, f64::max);
        sum += (value(row)? / best).ln();
    }
    Some((sum / results.sections.len() as f64).exp())
}

fn list(ranked: &[Ranked<'_>]) -> String {
    let rows: Vec<String> = ranked.iter().map(|row| format!("{} {:.2}", row.name, row.median)).collect();
    rows.join(", ")
}

/// Whether most rows are.
fn is_noisy(results: &Results<'_>) -> bool {
    let rows = || results.sections.iter().flat_map(|section| &section.rows);
    rows().filter(|row| row.is_noisy()).count() * 2 > rows().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Drawing, Section};
    use crate::run::SectionResults;
    use crate::sample::Sample;

    fn section() -> Section {
        Section {
            title: String::new(),
            about: String::new(),
            columns: Vec::new(),
            baseline: None,
            drawing: Drawing::Bars(Metric::Rate),
            rows: Vec::new(),
        }
    }

    /// The last line for two rows with these rates in each round, and these latencies.
    fn last_line(rates: [&[f64]; 2], p99: [f64; 2], others: f64) -> String {
        let section = section();
        let row = |index: usize| RowResults {
            name: ["a", "b"][index],
            samples: rates[index]
                .iter()
                .map(|rate| {
                    let mut sample = Sample::default();
                    sample.set(Metric::Rate, *rate);
                    sample.set(Metric::LatencyP99, p99[index]);
                    sample.set(Metric::OthersBusy, others);
                    Some(sample)
                })
                .collect(),
        };
        let results = Results {
            sections: vec![SectionResults { section: &section, rows: vec![row(0), row(1)] }],
            failures: Vec::new(),
        };
        choose(&results, "otherwise").pop().unwrap()
    }

    #[test]
    fn who_wins_every_round_by_enough_is_chosen_and_that_is_sure() {
        let line = last_line([&[100.0; 5], &[120.0, 118.0, 130.0, 110.0, 119.0]], [1.0, 2.0], 0.0);
        assert_eq!(line, "Choose b: it won every round against a, as luck does once in 32 times.");
    }

    #[test]
    fn few_rounds_or_a_lost_one_are_only_likely() {
        assert!(
            last_line([&[100.0; 2], &[120.0; 2]], [1.0; 2], 0.0)
                .starts_with("Choose b, likely: it won every")
        );
        let line = last_line([&[100.0; 3], &[120.0, 99.0, 120.0]], [1.0; 2], 0.0);
        assert!(line.starts_with("Choose b, likely: it won 2 of 3 rounds against a"), "{line}");
    }

    #[test]
    fn the_same_rate_is_decided_by_latency() {
        let line = last_line([&[100.0; 5], &[101.0; 5]], [1.0, 2.0], 0.0);
        assert!(line.starts_with("Choose a: "), "{line}");
    }

    #[test]
    fn a_noisy_machine_tells_nothing() {
        let line = last_line([&[100.0; 5], &[150.0; 5]], [1.0; 2], 60.0);
        assert!(line.starts_with("Cannot tell: ") && line.ends_with("until then, otherwise."), "{line}");
    }

    #[test]
    fn nothing_measured_is_no_choice() {
        assert_eq!(last_line([&[], &[]], [1.0; 2], 0.0), "Too little was measured to choose.");
    }
}
