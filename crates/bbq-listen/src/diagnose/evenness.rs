//! How evenly connections were spread: a chi-square test of the shares.
//!
//! The caller counts, and chooses the period: a short one has too few connections, and a long one hides a recent change.

use crate::diagnose::chi_square;

/// How much the shares of workers or sockets differ from equal ones.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::Evenness;
///
/// let evenness = Evenness::of(&[105, 95]).ok_or("no connections")?;
/// assert!(evenness.p > 0.05, "such a difference is no surprise");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Evenness {
    /// The sum of the shares.
    pub connections: u64,
    /// Sum of (share - expected)^2 / expected, where equal shares are expected; 0 when all are the same.
    pub chi_square: f64,
    /// The probability that chance alone makes shares that differ this much or more: near 0 means that they are uneven. It is
    /// meaningless with fewer than about 5 connections per share.
    pub p: f64,
    /// The smallest share.
    pub smallest: u64,
    /// The largest share.
    pub largest: u64,
}

impl Evenness {
    /// Tests the shares; `None` without connections.
    #[must_use]
    pub fn of(shares: &[u64]) -> Option<Self> {
        let connections: u64 = shares.iter().sum();
        let (smallest, largest) = (*shares.iter().min()?, *shares.iter().max()?);
        if connections == 0 {
            return None;
        }
        let expected = connections as f64 / shares.len() as f64;
        let chi_square = shares.iter().map(|share| (*share as f64 - expected).powi(2) / expected).sum();
        let p = chi_square::survival(chi_square, shares.len() - 1);
        Some(Self { connections, chi_square, p, smallest, largest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_are_even_and_one_taker_is_not() {
        let even = Evenness::of(&[50, 50, 50, 50]).unwrap();
        assert_eq!((even.connections, even.chi_square, even.p), (200, 0.0, 1.0));
        let one = Evenness::of(&[200, 0, 0, 0]).unwrap();
        assert_eq!((one.smallest, one.largest, one.chi_square), (0, 200, 600.0));
        assert!(one.p < 1e-100, "{one:?}");
        // 55 of 100, of 200: (5^2 + 5^2) / 100 at one degree is no surprise.
        let usual = Evenness::of(&[105, 95]).unwrap();
        assert!((usual.p - 0.4795).abs() < 0.0001, "{usual:?}");
    }

    #[test]
    fn nothing_says_nothing() {
        assert_eq!(Evenness::of(&[]), None);
        assert_eq!(Evenness::of(&[0, 0]), None);
        assert_eq!(Evenness::of(&[7]).map(|alone| alone.p), Some(1.0));
    }
}
