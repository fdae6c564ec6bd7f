//! Random numbers that a seed repeats.

use std::hash::{BuildHasher, RandomState};

/// The environment variable with a seed to repeat.
const VARIABLE: &str = "BBQ_SEED";

/// A splitmix64 generator.
pub struct Random(u64);

impl Random {
    /// Seeded by the environment or by the system. Prints how to repeat the run, which cargo shows when the test fails.
    pub fn seeded() -> Random {
        let seed = match std::env::var(VARIABLE) {
            Ok(seed) => seed.parse().expect("BBQ_SEED is a number"),
            Err(_) => RandomState::new().hash_one(0),
        };
        println!("repeat this run with {VARIABLE}={seed}");
        Random(seed)
    }

    /// Never the same twice.
    pub fn from_system() -> Random {
        Random(RandomState::new().hash_one(0))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `limit` - 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
