//! Runs of whole worlds. If one fails, something that was acknowledged is lost, doubled, out of order or stuck, or the
//! simulation no longer finds what it must find.

use bbq_simulation::bug::Bug;
use bbq_simulation::kind::Kind;
use bbq_simulation::run::{Options, run_seed, run_seeds};
use clap::ValueEnum as _;

/// `cargo xtask simulate` runs ten times as many.
const SEEDS: u64 = 2000;
/// No seed of these is a world with sinks that make requests.
const SEEDS_OF_REQUESTS: u64 = 1000;
/// Nor one with sinks that leave messages out.
const SEEDS_OF_RULES: u64 = 1000;
/// Each planted bug is found within so many.
const SEEDS_PER_BUG: u64 = 10_000;

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn every_promise_is_kept_whatever_fails() {
    let report = run_seeds(1, SEEDS, Options::default(), threads(), 3);
    for failure in &report.failures {
        eprintln!("seed {}: {}", failure.seed, failure.what);
        eprintln!("repeat with: cargo xtask simulate --seed {} --trace", failure.seed);
    }
    assert!(report.failures.is_empty(), "{} seeds failed", report.failures.len());
    assert_eq!(report.seeds, SEEDS);
    // Worlds in which nothing gets through would keep every promise.
    assert!(report.acknowledged > 50 * SEEDS, "only {} records were acknowledged", report.acknowledged);
    assert!(report.starts > 2 * SEEDS, "only {} starts", report.starts);
}

#[test]
fn every_promise_is_kept_whatever_a_receiver_of_requests_does() {
    let options = Options { bug: None, kind: Some(Kind::Requests) };
    let report = run_seeds(1, SEEDS_OF_REQUESTS, options, threads(), 3);
    for failure in &report.failures {
        eprintln!("seed {}: {}", failure.seed, failure.what);
        eprintln!("repeat with: cargo xtask simulate --world requests --seed {} --trace", failure.seed);
    }
    assert!(report.failures.is_empty(), "{} seeds failed", report.failures.len());
    assert!(report.acknowledged > 50 * SEEDS_OF_REQUESTS, "only {} were acknowledged", report.acknowledged);
}

#[test]
fn every_promise_is_kept_whichever_rules_a_sink_has_had() {
    let options = Options { bug: None, kind: Some(Kind::Rules) };
    let report = run_seeds(1, SEEDS_OF_RULES, options, threads(), 3);
    for failure in &report.failures {
        eprintln!("seed {}: {}", failure.seed, failure.what);
        eprintln!("repeat with: cargo xtask simulate --world rules --seed {} --trace", failure.seed);
    }
    assert!(report.failures.is_empty(), "{} seeds failed", report.failures.len());
    assert!(report.acknowledged > 50 * SEEDS_OF_RULES, "only {} were acknowledged", report.acknowledged);
}

#[test]
fn every_planted_bug_is_found() {
    let found = |bug| run_seeds(1, SEEDS_PER_BUG, Options::with_bug(bug), threads(), 1).failures;
    let missed: Vec<&Bug> = Bug::value_variants().iter().filter(|bug| found(**bug).is_empty()).collect();
    assert!(missed.is_empty(), "not found within {SEEDS_PER_BUG} seeds: {missed:?}");
}

#[test]
fn a_seed_runs_the_same_every_time() {
    for seed in 1..=20 {
        for kind in [None, Some(Kind::Requests), Some(Kind::Rules)] {
            let options = Options { bug: None, kind };
            let (first, events) = run_seed(seed, options, true);
            let (second, again) = run_seed(seed, options, true);
            assert_eq!(first, second, "seed {seed}");
            assert!(events == again, "seed {seed}: other events");
            // Nor does it matter whether somebody looks.
            assert_eq!(run_seed(seed, options, false).0, first, "seed {seed}");
        }
    }
}
