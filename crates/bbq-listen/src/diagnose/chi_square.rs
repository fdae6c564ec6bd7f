//! The chi-square distribution's upper tail: how likely chance alone makes shares as uneven as those seen.
//!
//! By the regularised incomplete gamma function, as in Abramowitz and Stegun 26.4.19, 6.5.29 (series) and 6.5.31
//! (continued fraction). Pure; no share is known here.

/// Terms of a series or fraction before it is taken as it is. They converge in some multiple of the square root of the
/// degrees of freedom; this is enough for far more than the 1,023 of the largest group.
const TERMS_MAX: u32 = 10_000;
/// Where a further term no longer matters.
const PRECISION: f64 = 1e-14;
/// Stands for zero in a denominator (Lentz's method).
const TINY: f64 = 1e-300;

/// The probability that a chi-square variable with so many degrees of freedom is at least `value`: 0 <= p <= 1.
///
/// With no degree of freedom there is nothing to differ: 1.
pub(crate) fn survival(value: f64, degrees: usize) -> f64 {
    if degrees == 0 || value <= 0.0 {
        return 1.0;
    }
    let (shape, x) = (degrees as f64 / 2.0, value / 2.0);
    let p = if x < shape + 1.0 { 1.0 - lower_by_series(shape, x) } else { upper_by_fraction(shape, x) };
    p.clamp(0.0, 1.0)
}

/// x^a e^-x / Gamma(a): in front of both expansions.
fn front(shape: f64, x: f64) -> f64 {
    (shape * x.ln() - x - ln_gamma(shape)).exp()
}

fn lower_by_series(shape: f64, x: f64) -> f64 {
    let mut term = 1.0 / shape;
    let mut sum = term;
    for n in 1..=TERMS_MAX {
        term *= x / (shape + f64::from(n));
        sum += term;
        if term < sum * PRECISION {
            break;
        }
    }
    sum * front(shape, x)
}

fn upper_by_fraction(shape: f64, x: f64) -> f64 {
    let mut b = x + 1.0 - shape;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut fraction = d;
    for n in 1..=TERMS_MAX {
        let n = f64::from(n);
        let a = n * (shape - n);
        b += 2.0;
        d = 1.0 / not_zero(a * d + b);
        c = not_zero(b + a / c);
        let step = c * d;
        fraction *= step;
        if (step - 1.0).abs() < PRECISION {
            break;
        }
    }
    fraction * front(shape, x)
}

fn not_zero(value: f64) -> f64 {
    if value.abs() < TINY { TINY } else { value }
}

/// ln Gamma(x) for x of at least 1/2, by Stirling's series (Abramowitz and Stegun 6.1.41) from 10 on, to which smaller
/// ones are brought by Gamma(x + 1) = x Gamma(x).
fn ln_gamma(x: f64) -> f64 {
    let mut x = x;
    let mut below = 1.0;
    while x < 10.0 {
        below *= x;
        x += 1.0;
    }
    let square = x * x;
    let series = (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / (1188.0 * square)) / square) / square)
            / square)
        / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - f64::ln(below)
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

    #[test]
    fn gamma_of_whole_and_half_numbers() {
        assert_close(ln_gamma(0.5), f64::ln(std::f64::consts::PI) / 2.0);
        assert_close(ln_gamma(5.0), f64::ln(24.0));
        assert_close(ln_gamma(11.0), f64::ln(3_628_800.0));
    }
}
