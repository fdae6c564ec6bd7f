//! Repeatable chance (xorshift64*, Vigna 2016).

/// Runs a test for as many seeds as it wants, or for the one in `BBQ_SEED`, and says which one failed.
pub(crate) fn for_seeds(count: u64, test: impl Fn(u64)) {
    let one: Option<u64> = std::env::var("BBQ_SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in one.map_or(1..count + 1, |seed| seed..seed + 1) {
        if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(seed))) {
            eprintln!("repeat with BBQ_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        // Neighbouring seeds must not begin alike, and 0 is no state.
        Random((seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Less than `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }

    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}
