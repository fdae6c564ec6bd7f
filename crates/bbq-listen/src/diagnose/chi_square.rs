//! The chi-square distribution's upper tail: how likely chance alone makes shares as uneven as those seen.

use std::f64::consts::PI;

/// The probability that a chi-square variable with so many degrees of freedom is at least `value`: 0 <= p <= 1. With no degree
/// of freedom it is 1.
///
/// These are the finite sums of Abramowitz and Stegun, 26.4.4 and 26.4.5. With the 1,023 degrees of the largest group or fewer,
/// e^-x underflows only where p is below 1e-12.
pub(crate) fn survival(value: f64, degrees: usize) -> f64 {
    if degrees == 0 || value <= 0.0 {
        return 1.0;
    }
    let x = value / 2.0;
    let exponential = (-x).exp();
    // `p` is the probability for 2 * `shape` degrees, and `term` is x^shape e^-x / Gamma(shape + 1).
    let (mut shape, mut p, mut term) = if degrees.is_multiple_of(2) {
        (1.0, exponential, x * exponential)
    } else {
        (0.5, libm::erfc(x.sqrt()), 2.0 * (x / PI).sqrt() * exponential)
    };
    while 2.0 * shape < degrees as f64 {
        p += term;
        shape += 1.0;
        term *= x / shape;
    }
    p.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(value: f64, wanted: f64) {
        assert!((value - wanted).abs() <= 1e-9 * wanted.abs().max(1e-12), "{value} is not {wanted}");
    }

    #[test]
    fn two_degrees_are_an_exponential() {
        for value in [0.01, 0.5, 1.0, 3.0, 4.0, 10.0, 100.0, 1000.0] {
            assert_close(survival(value, 2), f64::exp(-value / 2.0));
        }
    }

    #[test]
    fn four_degrees_are_known_in_closed_form() {
        for value in [0.1, 2.0, 5.9, 6.1, 40.0] {
            assert_close(survival(value, 4), f64::exp(-value / 2.0) * (1.0 + value / 2.0));
        }
    }

    /// Critical values as printed in tables: three decimals.
    #[test]
    fn critical_values_of_the_tables() {
        for (degrees, value, p) in [
            (1, 3.841, 0.05),
            (1, 10.828, 0.001),
            (3, 7.815, 0.05),
            (3, 16.266, 0.001),
            (7, 24.322, 0.001),
            (10, 3.940, 0.95),
            (30, 59.703, 0.001),
            (100, 124.342, 0.05),
            (100, 77.929, 0.95),
        ] {
            let found = survival(value, degrees);
            assert!((found - p).abs() < 0.0002 * p.max(0.1), "{degrees}, {value}: {found} is not {p}");
        }
    }

    #[test]
    fn the_ends_are_0_and_1() {
        assert_close(survival(0.0, 3), 1.0);
        assert_close(survival(5.0, 0), 1.0);
        assert_close(survival(1e9, 3), 0.0);
        let middle = survival(1022.3, 1023);
        assert!((middle - 0.5).abs() < 0.01, "{middle}");
    }
}
