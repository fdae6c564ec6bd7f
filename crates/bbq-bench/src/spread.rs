//! Median, least and most of a figure over the rounds, and ratios taken within each round.

use serde::Serialize;

/// A figure over the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// `None` without values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Spread { median, least, most })
    }

    /// `upper[i] / lower[i]` of the rounds that have both, so that a slow minute of the machine meets both sides.
    pub(crate) fn of_ratios(upper: &[Option<f64>], lower: &[Option<f64>]) -> Option<Spread> {
        let both = upper.iter().zip(lower).filter_map(|(upper, lower)| Some((*upper)? / (*lower)?));
        Spread::of(both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one_or_between_the_two() {
        assert_eq!(Spread::of([3.0, 1.0, 9.0]), Some(Spread { median: 3.0, least: 1.0, most: 9.0 }));
        assert_eq!(Spread::of([4.0, 1.0]), Some(Spread { median: 2.5, least: 1.0, most: 4.0 }));
        assert_eq!(Spread::of([f64::NAN, 1.0]), Spread::of([1.0]));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn ratios_are_within_a_round_and_leave_out_rounds_that_lack_one() {
        let ratios = Spread::of_ratios(&[Some(2.0), Some(9.0), None], &[Some(1.0), Some(3.0), Some(5.0)]);
        assert_eq!(ratios, Some(Spread { median: 2.5, least: 2.0, most: 3.0 }));
        assert_eq!(Spread::of_ratios(&[Some(1.0)], &[Some(0.0)]), None);
    }
}
