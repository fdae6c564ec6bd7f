//! Which of several rows to choose over several sections, and how sure that is.
//!
//! In each round, a row's score is the geometric mean over the sections of its figure as a part of the best one's. So a
//! section counts as much as another whatever its figures are, and what the machine did in a round meets all rows alike.

use crate::metric::Metric;
use crate::run::Results;
use crate::spread::Spread;

/// Closer than this is no difference that anybody would notice.
const SAME: f64 = 0.03;
/// With fewer rounds luck is not told from merit: four wins of four are luck once in 16 times.
const ROUNDS_TO_BE_SURE: usize = 5;

/// The rows must be the same in every section. `otherwise` is what to do when it cannot be told.
pub(crate) fn choose(results: &Results<'_>, metric: Metric, otherwise: &str) -> Vec<String> {
    let Some(first) = results.sections.first() else { return Vec::new() };
    let names: Vec<&str> = first.rows.iter().map(|row| row.name).collect();
    let scores: Vec<Vec<Option<f64>>> = (0..names.len()).map(|row| scores(results, metric, row)).collect();
    let mut ranked: Vec<(usize, Spread)> = scores
        .iter()
        .enumerate()
        .filter_map(|(row, scores)| Some((row, Spread::of(scores.iter().copied().flatten())?)))
        .collect();
    ranked.sort_by(|one, other| other.1.median.total_cmp(&one.1.median));
    let [(best, best_score), (second, second_score), ..] = ranked[..] else {
        return vec!["Too little was measured to choose.".to_owned()];
    };
    let ratio = Spread::of_ratios(&scores[best], &scores[second]);
    let rounds: Vec<bool> = scores[best]
        .iter()
        .zip(&scores[second])
        .filter_map(|(one, other)| Some((*one)? > (*other)?))
        .collect();
    let wins = rounds.iter().filter(|won| **won).count();
    let noisy =
        results.sections.iter().flat_map(|section| &section.rows).filter(|row| row.is_noisy()).count();
    let all = results.sections.iter().map(|section| section.rows.len()).sum::<usize>();
    let (best, second) = (names[best], names[second]);
    let mut lines = vec![format!(
        "Over all sections {best} has {:.2} of the best rate of each, {second} {:.2}; {best} won {wins} of {} rounds against it, by {}.",
        best_score.median,
        second_score.median,
        rounds.len(),
        ratio.map_or_else(
            || "no measure".to_owned(),
            |ratio| format!("{:.2} ({:.2}-{:.2})", ratio.median, ratio.least, ratio.most)
        ),
    )];
    lines.push(if noisy * 2 > all {
        format!("Cannot tell: others used the machine too much. Repeat it on a quiet machine; until then, {otherwise}.")
    } else if ratio.is_none_or(|ratio| ratio.median < 1.0 + SAME) {
        format!("Choose {best} or {second}: they differ by less than {:.0} %, which does not matter. Without a reason, {otherwise}.", SAME * 100.0)
    } else if wins < rounds.len() {
        format!("Choose {best}, likely: it did not win every round. More --rounds, or a quieter machine, would tell.")
    } else if rounds.len() < ROUNDS_TO_BE_SURE {
        format!("Choose {best}, likely: it won all rounds, but they are only {}; {ROUNDS_TO_BE_SURE} would make it sure.", rounds.len())
    } else {
        format!("Choose {best}: it won every round, which luck does once in {} times.", 1_u64 << rounds.len().min(62))
    });
    lines
}

/// By round; none where the row or all others of a section failed.
fn scores(results: &Results<'_>, metric: Metric, row: usize) -> Vec<Option<f64>> {
    let rounds = results.sections.iter().flat_map(|section| &section.rows).map(|row| row.samples.len()).max();
    (0..rounds.unwrap_or(0))
        .map(|round| {
            let mut sum = 0.0;
            for section in &results.sections {
                let value = |row: usize| section.rows[row].samples.get(round)?.as_ref()?.value(metric);
                let best = (0..section.rows.len()).filter_map(value).fold(0.0, f64::max);
                sum += (value(row)? / best).ln();
            }
            Some((sum / results.sections.len() as f64).exp())
        })
        .collect()
}
