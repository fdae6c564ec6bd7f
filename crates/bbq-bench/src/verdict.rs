//! Which of several rows to choose over several sections, and how sure that is.
//!
//! In each round, a row's score is the geometric mean over the sections of its figure as a part of the best one's. So a
//! section counts as much as another whatever its figures are, and what the machine did in a round meets all rows alike.
//!
//! A section counts only if the load did not limit any of its rows: else its rates say how fast the load is.

use crate::metric::Metric;
use crate::results::{ROUNDS_TO_BE_SURE, Results, RowResults, SectionResults};
use crate::spread::Spread;

/// Closer than this is no difference that anybody would notice.
const SAME: f64 = 0.03;
/// The same of p99, which moves more from run to run.
const SAME_LATENCY: f64 = 0.1;

/// In front of a verdict where it stands beside one section.
pub(crate) const ALL_SECTIONS: &str = "over all sections: ";

/// By rate, and between those that have the same by latency. The rows must be the same in every section; `otherwise` is what
/// to do when it cannot be told.
pub(crate) fn choose(results: &Results<'_>, otherwise: &str) -> Vec<String> {
    let is_counted = |section: &&SectionResults<'_>| !section.rows.iter().any(RowResults::is_limited_by_load);
    let sections: Vec<&SectionResults<'_>> = results.sections.iter().filter(is_counted).collect();
    let (counted, all) = (sections.len(), results.sections.len());
    if counted == 0 && all > 0 {
        return vec![format!(
            "Cannot tell: the load was the limit in every section, so the rates are its own. Compare what the server CPU is for an \
             operation; until then, {otherwise}."
        )];
    }
    let by_rate = ranking(&sections, Metric::Rate, |rate| rate);
    let by_latency = ranking(&sections, Metric::LatencyP99, f64::recip);
    let [best, second, ..] = &by_rate[..] else {
        return vec!["Too little was measured to choose.".to_owned()];
    };
    let mut lines = Vec::new();
    if counted < all {
        let left: Vec<&str> = sections.iter().map(|section| section.section.title.as_str()).collect();
        lines.push(format!(
            "In {} of {all} sections the load was the limit of a row; what follows is from the others: {}.",
            all - counted,
            left.join("; ")
        ));
    }
    lines.push(format!("Rate, as a part of the best one's over all sections: {}.", list(&by_rate)));
    lines.push(format!("p99 latency, likewise, more is shorter: {}.", list(&by_latency)));
    let is_near = |row: &&Ranked<'_>| row.is_near(best, SAME);
    let near: Vec<&Ranked<'_>> = by_rate.iter().filter(is_near).collect();
    lines.push(if is_noisy(&sections) {
        format!("Cannot tell: others used the machine too much. Repeat it on a quiet one; until then, {otherwise}.")
    } else if near.len() < 2 {
        let Sureness { choose, reason, .. } = Sureness::of(best, second);
        format!("{choose}: by rate {reason}")
    } else {
        among_equals(&near, &by_latency, by_rate.len(), otherwise)
    });
    lines
}

/// The verdict on rows that have the same rate.
fn among_equals(near: &[&Ranked<'_>], by_latency: &[Ranked<'_>], rows: usize, otherwise: &str) -> String {
    let names: Vec<&str> = near.iter().map(|row| row.name).collect();
    let percent = SAME * 100.0;
    let mut shortest = by_latency.iter().filter(|row| names.contains(&row.name));
    if let (Some(one), Some(next)) = (shortest.next(), shortest.next()) {
        let Sureness { choose, reason, is_sure } = Sureness::of(one, next);
        if is_sure && !next.is_near(one, SAME_LATENCY) {
            let names = names.join(", ");
            return format!(
                "{choose}: the rates of {names} differ by less than {percent:.0} %, and by p99 {reason}"
            );
        }
    }
    let which =
        if near.len() == rows { "which one".to_owned() } else { format!("which of {}", names.join(", ")) };
    let rest = match rows - near.len() {
        0 => String::new(),
        1 => " The other one has less.".to_owned(),
        rest => format!(" The other {rest} have less."),
    };
    format!(
        "It does not matter on this machine {which}: their rates differ by less than {percent:.0} %, and none has a p99 that is surely \
         shorter by {:.0} %.{rest} Unless you have another reason, {otherwise}.",
        SAME_LATENCY * 100.0
    )
}

/// How a choice is put.
struct Sureness {
    choose: String,
    reason: String,
    is_sure: bool,
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
            Sureness { choose: likely, reason: reason + &more, is_sure: false }
        } else if won < all || least <= most {
            let more = "; what they had in different rounds overlaps, so more --rounds may say otherwise.";
            Sureness { choose: likely, reason: reason + more, is_sure: false }
        } else {
            let more = ", and its worst round was better than the other's best.";
            Sureness { choose: format!("Choose {name}"), reason: reason + more, is_sure: true }
        }
    }
}

/// A row with its score in each round, none where it failed.
struct Ranked<'a> {
    name: &'a str,
    scores: Vec<Option<f64>>,
    median: f64,
}

impl Ranked<'_> {
    /// Whether `best` is better by no more than this part, in the median over the rounds.
    fn is_near(&self, best: &Ranked<'_>, part: f64) -> bool {
        Spread::of_ratios(&best.scores, &self.scores).is_none_or(|ratio| ratio.median < 1.0 + part)
    }
}

/// The best first. `worth` makes more of what is better.
fn ranking<'a>(sections: &[&SectionResults<'a>], metric: Metric, worth: fn(f64) -> f64) -> Vec<Ranked<'a>> {
    let Some(first) = sections.first() else { return Vec::new() };
    let rank = |(row, named): (usize, &RowResults<'a>)| {
        let rounds = 0..named.samples.len();
        let scores: Vec<Option<f64>> =
            rounds.map(|round| score(sections, metric, worth, row, round)).collect();
        let median = Spread::of(scores.iter().copied().flatten())?.median;
        Some(Ranked { name: named.name, scores, median })
    };
    let mut ranked: Vec<Ranked<'a>> = first.rows.iter().enumerate().filter_map(rank).collect();
    ranked.sort_by(|one, other| other.median.total_cmp(&one.median));
    ranked
}

fn score(
    sections: &[&SectionResults<'_>],
    metric: Metric,
    worth: fn(f64) -> f64,
    row: usize,
    round: usize,
) -> Option<f64> {
    let mut sum = 0.0;
    for section in sections {
        let value = |row: usize| section.rows[row].samples.get(round)?.as_ref()?.value(metric).map(worth);
        let best = (0..section.rows.len()).filter_map(value).fold(0.0, f64::max);
        sum += (value(row)? / best).ln();
    }
    Some((sum / sections.len() as f64).exp())
}

fn list(ranked: &[Ranked<'_>]) -> String {
    let rows: Vec<String> = ranked.iter().map(|row| format!("{} {:.2}", row.name, row.median)).collect();
    rows.join(", ")
}

/// Whether most rows are.
fn is_noisy(sections: &[&SectionResults<'_>]) -> bool {
    let rows = || sections.iter().flat_map(|section| &section.rows);
    rows().filter(|row| row.is_noisy()).count() * 2 > rows().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use crate::section::Section;

    /// The last line for two rows with these rates in each round, and these latencies.
    fn last_line(rates: [&[f64]; 2], p99: [f64; 2], others: f64) -> String {
        lines(rates, p99, others, [0.0; 2]).pop().unwrap()
    }

    /// The lines of two sections: in the first, the load has so much to do.
    fn lines(rates: [&[f64]; 2], p99: [f64; 2], others: f64, client_busy: [f64; 2]) -> Vec<String> {
        let section = Section { title: "a section".to_owned(), ..Section::blank() };
        let row = |index: usize, client_busy: f64| RowResults {
            name: ["a", "b"][index],
            asked: None,
            samples: rates[index]
                .iter()
                .map(|rate| {
                    let mut sample = Sample::default();
                    sample.set(Metric::Rate, *rate);
                    sample.set(Metric::LatencyP99, p99[index]);
                    sample.set(Metric::OthersBusy, others);
                    sample.set(Metric::ClientBusy, client_busy);
                    Some(sample)
                })
                .collect(),
        };
        let section = |client_busy: f64| SectionResults {
            section: &section,
            rows: vec![row(0, client_busy), row(1, 0.0)],
        };
        let results = Results { sections: client_busy.map(section).into(), failures: Vec::new() };
        choose(&results, "otherwise")
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
    fn the_same_rate_is_decided_by_latency_if_that_is_sure() {
        let line = last_line([&[100.0; 5], &[101.0; 5]], [1.0, 2.0], 0.0);
        assert!(
            line.starts_with(
                "Choose a: the rates of b, a differ by less than 3 %, and by p99 it won 5 of 5 rounds against b"
            ),
            "{line}"
        );
    }

    #[test]
    fn what_differs_too_little_or_not_surely_does_not_matter() {
        for (rounds, p99) in [(5, [1.0, 1.05]), (3, [1.0, 2.0])] {
            let line = last_line([&[100.0; 5][..rounds], &[101.0; 5][..rounds]], p99, 0.0);
            assert!(line.starts_with("It does not matter on this machine which one: "), "{line}");
            assert!(line.ends_with("otherwise."), "{line}");
        }
    }

    #[test]
    fn a_section_that_the_load_limits_does_not_count() {
        let rates: [&[f64]; 2] = [&[100.0; 5], &[150.0; 5]];
        let said = lines(rates, [1.0; 2], 0.0, [99.0, 0.0]);
        assert!(said[0].starts_with("In 1 of 2 sections the load was the limit of a row"), "{said:?}");
        assert!(said.last().unwrap().starts_with("Choose b: "), "{said:?}");
        let said = lines(rates, [1.0; 2], 0.0, [99.0; 2]);
        assert!(said.len() == 1 && said[0].starts_with("Cannot tell: the load was the limit"), "{said:?}");
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
