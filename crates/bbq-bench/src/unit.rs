//! Units of figures, and figures as people read them: "1.5 ms", "20 k/s".

use crate::spread::Spread;

/// What a figure is measured in. Values are in the first unit of [`scale`](Unit::scale).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond,
    Microseconds,
    Milliseconds,
    Seconds,
    MegabytesPerSecond,
    Bytes,
    Percent,
    Count,
}

impl Unit {
    /// Units from the smallest on, and how many of the smallest each is.
    fn scale(self) -> &'static [(f64, &'static str)] {
        match self {
            Unit::PerSecond => &[(1.0, "/s"), (1e3, " k/s"), (1e6, " M/s")],
            Unit::Microseconds => &[(1.0, " us"), (1e3, " ms"), (1e6, " s")],
            Unit::Milliseconds => &[(1.0, " ms"), (1e3, " s")],
            Unit::Seconds => &[(1.0, " s")],
            Unit::MegabytesPerSecond => &[(1.0, " MB/s")],
            Unit::Bytes => &[(1.0, " B"), (1024.0, " KiB"), (1_048_576.0, " MiB")],
            Unit::Percent => &[(1.0, " %")],
            Unit::Count => &[(1.0, ""), (1e3, " k"), (1e6, " M")],
        }
    }

    /// Three digits at most, and the largest unit of which it is one or more.
    pub(crate) fn show(self, value: f64) -> String {
        let (number, unit) = self.parts(value);
        number + unit
    }

    /// The median, and from the least to the most if they differ.
    pub(crate) fn show_spread(self, spread: &Spread) -> String {
        let [median, least, most] = [spread.median, spread.least, spread.most].map(|value| self.parts(value));
        let shown = format!("{}{}", median.0, median.1);
        if least == most {
            shown
        } else if least.1 == median.1 && most.1 == median.1 {
            format!("{shown} ({}-{})", least.0, most.0)
        } else {
            format!("{shown} ({}{} - {}{})", least.0, least.1, most.0, most.1)
        }
    }

    fn parts(self, value: f64) -> (String, &'static str) {
        let scale = self.scale();
        // As it is shown: 0.9997 of a unit is 1.
        let fits = scale.iter().rev().find(|(size, _)| three_digits(value / size).abs() >= 1.0);
        let (size, unit) = fits.or(scale.first()).copied().unwrap_or((1.0, ""));
        (number(three_digits(value / size)), unit)
    }
}

/// Rounded to three digits that count; more only before the point.
fn three_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digit = 10_f64.powf(value.abs().log10().floor() - 2.0);
    // Halves go away from zero, though many of them are a little less in binary.
    (value / digit * (1.0 + 1e-12)).round() * digit
}

/// Without zeros that say nothing.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        x if x >= 100.0 || x == 0.0 => 0,
        x if x >= 10.0 => 1,
        x if x >= 1.0 => 2,
        x if x >= 0.1 => 3,
        x if x >= 0.01 => 4,
        _ => 6,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_in_the_unit_that_fits_with_three_digits_at_most() {
        let shown = |unit: Unit, values: &[f64]| values.iter().map(|v| unit.show(*v)).collect::<Vec<_>>();
        assert_eq!(
            shown(
                Unit::Microseconds,
                &[0.0, 0.036, 0.1744, 1.5, 50.0, 999.7, 1_500.0, 50_000.0, 1_003_487.0]
            ),
            ["0 us", "0.036 us", "0.174 us", "1.5 us", "50 us", "1 ms", "1.5 ms", "50 ms", "1 s"]
        );
        assert_eq!(shown(Unit::PerSecond, &[870.0, 20_000.0, 1_234_567.0]), ["870/s", "20 k/s", "1.23 M/s"]);
        assert_eq!(shown(Unit::Bytes, &[137.0, 1966.0, 1023.9]), ["137 B", "1.92 KiB", "1 KiB"]);
        assert_eq!(shown(Unit::Percent, &[3.71, 36.0]), ["3.71 %", "36 %"]);
        assert_eq!(shown(Unit::Milliseconds, &[0.66, 1217.0]), ["0.66 ms", "1.22 s"]);
        assert_eq!(
            shown(Unit::Microseconds, &[1_015.0, 2_135.0, 2_134.0]),
            ["1.02 ms", "2.14 ms", "2.13 ms"]
        );
    }

    #[test]
    fn a_spread_says_its_unit_once_if_there_is_one() {
        let spread = |median, least, most| Spread { median, least, most };
        let show = |spread| Unit::Microseconds.show_spread(&spread);
        assert_eq!(show(spread(174.0, 168.0, 184.0)), "174 us (168-184)");
        assert_eq!(show(spread(1_823.0, 277.0, 2_351.0)), "1.82 ms (277 us - 2.35 ms)");
        assert_eq!(show(spread(40.0, 40.0, 40.0)), "40 us");
    }
}
