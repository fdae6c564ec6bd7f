//! Random numbers from a seed (xorshift64*, Vigna 2016): the only source of randomness of a run.

/// A sequence of numbers that a seed determines.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        // Neighbouring seeds must begin differently, and the state must not be 0.
        let mixed = (seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mut random = Random((mixed ^ (mixed >> 29)) | 1);
        random.next();
        random
    }

    /// The next number: 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "it never ends and is not iterated over")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number less than `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound.max(1)
    }

    /// An index into a collection of this many items.
    pub fn index(&mut self, items: usize) -> usize {
        self.below(items as u64) as usize
    }

    /// A number from `least` to `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// True with the probability 1 / `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// True with the probability `of_65536` / 65,536.
    pub fn chance(&mut self, of_65536: u32) -> bool {
        of_65536 > 0 && self.below(65_536) < u64::from(of_65536)
    }

    /// A separate sequence for a part of the run. The numbers that one part takes then do not change those of another part.
    #[must_use]
    pub fn fork(&mut self) -> Random {
        Random::new(self.next())
    }
}
