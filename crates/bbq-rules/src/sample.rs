//! A share of the messages, chosen by a hash of stream and number.
//!
//! ```text
//! mix(x):  x ^= x >> 30;  x *= 0xbf58476d1ce4e5b9;  x ^= x >> 27;  x *= 0x94d049bb133111eb;  x ^= x >> 31
//! hash  =  mix(mix(mix(a) ^ b) + number)       a, b: bytes 0 to 7 and 8 to 15 of the stream's id, little-endian
//! ```
//!
//! All in 64 bits, without carry. A message is chosen if its hash is below the fraction of 2^64. So every server chooses the same
//! messages, and what a smaller fraction chooses is a part of what a larger one does. The mixer is that of SplitMix64 (Steele, Lea and
//! Flood, 2014).

use bbq_wire::StreamId;

/// A share: above 0 and up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fraction {
    share: f64,
    /// Hashes below it are chosen; `None` means all.
    below: Option<u64>,
}

/// 2^64.
const HASHES: f64 = 18_446_744_073_709_551_616.0;

impl Fraction {
    /// A share; `None` if it is none.
    pub(crate) fn of(share: f64) -> Option<Fraction> {
        if !(share > 0.0 && share <= 1.0) {
            return None;
        }
        // The conversion stays in its range.
        Some(Fraction { share, below: (share < 1.0).then_some((share * HASHES) as u64) })
    }

    /// Reads a share, such as `0.1`.
    ///
    /// # Errors
    /// What is allowed.
    pub(crate) fn parse(text: &str) -> Result<Fraction, String> {
        let wrong =
            || format!("{text:?} is not a share; write a fraction above 0 and up to 1, for example 0.1");
        Fraction::of(text.parse().map_err(|_| wrong())?).ok_or_else(wrong)
    }

    pub(crate) fn share(self) -> f64 {
        self.share
    }

    /// Whether a message is chosen.
    #[inline]
    pub(crate) fn chooses(self, stream: StreamId, sequence: u64) -> bool {
        self.below.is_none_or(|below| hash(stream, sequence) < below)
    }
}

fn hash(stream: StreamId, sequence: u64) -> u64 {
    let id = u128::from_le_bytes(stream.0);
    let (a, b) = (id as u64, (id >> 64) as u64);
    mix(mix(mix(a) ^ b).wrapping_add(sequence))
}

fn mix(mut x: u64) -> u64 {
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_messages_of_each_stream_is_chosen() {
        for stream in [StreamId([0; 16]), StreamId([7; 16]), StreamId(*b"0123456789abcdef")] {
            for share in [0.5, 0.1, 0.01] {
                let fraction = Fraction::of(share).unwrap();
                let chosen = (1..=100_000).filter(|number| fraction.chooses(stream, *number)).count() as f64;
                // Five standard deviations of a binomial distribution.
                let deviation = (100_000.0 * share * (1.0 - share)).sqrt();
                assert!((chosen - 100_000.0 * share).abs() < 5.0 * deviation, "{stream} {share}: {chosen}");
            }
        }
    }

    #[test]
    fn a_smaller_share_is_a_part_of_a_larger_one_and_all_is_all() {
        let stream = StreamId([3; 16]);
        let [small, large, all] = [0.01, 0.3, 1.0].map(|share| Fraction::of(share).unwrap());
        for number in (1..10_000).chain([u64::MAX]) {
            assert!(!small.chooses(stream, number) || large.chooses(stream, number));
            assert!(all.chooses(stream, number));
        }
    }

    /// Other servers, also of other versions, choose the same messages.
    #[test]
    fn the_hash_stays_as_it_is_documented() {
        assert_eq!(hash(StreamId([0; 16]), 0), 0);
        assert_eq!(hash(StreamId([0; 16]), 1), mix(1));
        assert_eq!(hash(StreamId(*b"0123456789abcdef"), 42), 10_552_216_355_282_934_568);
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for text in ["", "0", "-0.1", "1.1", "NaN", "inf", "10%", "a"] {
            assert!(Fraction::parse(text).unwrap_err().contains("above 0 and up to 1"), "{text}");
        }
        assert_eq!(Fraction::parse("1").unwrap().share(), 1.0);
    }
}
