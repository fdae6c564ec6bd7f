//! Which of several rows to choose over several sections, and how sure that is.
//!
//! In each round, a row's score is the geometric mean over the sections of its figure as a part of the best one's. So a
//! section counts as much as another whatever its figures are, and what the machine did in a round meets all rows alike.

use crate::metric::Metric;
use crate::results::{Results, RowResults};
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
    let mut lines = vec![
        format!("Rate, as a part of the best one's over all sections: {}.", list(&by_rate)),
        format!("p99 latency, likewise, more is shorter: {}.", list(&by_latency)),
    ];
    let percent = SAME * 100.0;
    lines.push(if is_noisy(results) {
        format!("Cannot tell: others used the machine too much. Repeat it on a quiet one; until then, {otherwise}.")
    } else if Spread::of_ratios(&best.scores, &second.scores).is_none_or(|ratio| ratio.median < 1.0 + SAME) {
        let mut both = by_latency.iter().filter(|row| row.name == best.name || row.name == second.name);
        let (shorter, longer) = (both.next().unwrap_or(best), both.next().unwrap_or(second));
        let Sureness { choose, reason } = Sureness::of(shorter, longer);
        let (one, other) = (best.name, second.name);
        format!("{choose}: the rates of {one} and {other} differ by less than {percent:.0} %, and by p99 {reason}")
    } else {
        let Sureness { choose, reason } = Sureness::of(best, second);
        format!("{choose}: by rate {reason}")
    });
    lines
}

/// How a choice is put.
struct Sureness {
    choose: String,
    reason: String,
}

impl Sureness {
    /// By the rounds that `one` won against `other`, and by whether it did worse in one than `other` did in another.
    fn of(one: &Ranked<'_>, other: &Ranked<'_>) -> Sureness {
        let both = one.scores.iter().zip(&other.scores);
        let rounds: Vec<(f64, f64)> = both.filter_map(|(one, other)| Some(((*one)?, (*other)?))).collect();
        let (all, won) = (rounds.len(), rounds.iter().filter(|(one, other)| one > other).count());
        let least = rounds.iter().map(|round| round.0).fold(f64::MAX, f64::min);
        let most = rounds.iter().map(|round| round.1).fold(0.0, f64::max);
        let share = won as f64 * 100.0 / all.max(1) as f64;
        let (name, other) = (one.name, other.name);
        let reason = format!("it won {won} of {all} rounds against {other} ({share:.0} %)");
        let likely = format!("Choose {name}, likely");
        if all < ROUNDS_TO_BE_SURE {
            let more = format!("; {ROUNDS_TO_BE_SURE} rounds or more could make it sure.");
            Sureness { choose: likely, reason: reason + &more }
        } else if won < all || least <= most {
            let more = "; what they had in different rounds overlaps, so more --rounds may say otherwise.";
            Sureness { choose: likely, reason: reason + more }
        } else {
            let more = ", and its worst round was better than the other's best.";
            Sureness { choose: format!("Choose {name}"), reason: reason + more }
        }
    }
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
    use crate::results::SectionResults;
    use crate::sample::Sample;
    use crate::section::Section;

    /// The last line for two rows with these rates in each round, and these latencies.
    fn last_line(rates: [&[f64]; 2], p99: [f64; 2], others: f64) -> String {
        let section = Section::blank();
        let row = |index: usize| RowResults {
            name: ["a", "b"][index],
            asked: None,
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
    fn who_wins_every_round_by_more_than_it_varies_is_chosen() {
        let line = last_line([&[100.0; 5], &[120.0, 118.0, 130.0, 110.0, 119.0]], [1.0, 2.0], 0.0);
        let expected = "Choose b: by rate it won 5 of 5 rounds against a (100 %), and its worst round was better than the \
                        other's best.";
        assert_eq!(line, expected);
    }

    #[test]
    fn few_rounds_or_a_lost_one_are_only_likely() {
        let line = last_line([&[100.0; 2], &[120.0; 2]], [1.0; 2], 0.0);
        let expected = "Choose b, likely: by rate it won 2 of 2 rounds against a (100 %); 5 rounds or more could make it sure.";
        assert_eq!(line, expected);
        let line = last_line([&[100.0; 5], &[120.0, 99.0, 120.0, 120.0, 120.0]], [1.0; 2], 0.0);
        assert!(
            line.starts_with("Choose b, likely: by rate it won 4 of 5 rounds against a (80 %); what"),
            "{line}"
        );
    }

    #[test]
    fn the_same_rate_is_decided_by_latency_and_that_is_not_surer() {
        let line = last_line([&[100.0; 5], &[101.0; 5]], [1.0, 2.0], 0.0);
        assert!(
            line.starts_with(
                "Choose a: the rates of b and a differ by less than 3 %, and by p99 it won 5 of 5"
            ),
            "{line}"
        );
        let line = last_line([&[100.0; 3], &[101.0; 3]], [1.0, 2.0], 0.0);
        assert!(line.starts_with("Choose a, likely: "), "{line}");
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
