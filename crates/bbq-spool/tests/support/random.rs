//! Tests with many seeds.

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
