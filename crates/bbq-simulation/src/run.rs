//! Runs seeds: one, or many on all processors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bug::Bug;
use crate::history::Violation;
use crate::kind::Kind;
use crate::tiers::Tiers;
use crate::world::{Summary, World};

/// A seed that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The broken promise.
    pub what: String,
}

/// The results of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Seeds that were run.
    pub seeds: u64,
    /// Steps of all runs.
    pub steps: u64,
    /// Records acknowledged as durable.
    pub acknowledged: u64,
    /// Starts of the server.
    pub starts: u64,
    /// The first failures, ordered by seed.
    pub failures: Vec<Failure>,
}

/// Seeds between two lines of progress: about a minute on one processor.
const PROGRESS_SEEDS: u64 = 20_000;
/// The search ends after this many failures: more failures show nothing new.
const FAILURES_MAX: usize = 8;

/// What is run besides the seeds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// A planted bug.
    pub bug: Option<Bug>,
    /// The kind of every world; `None` for that of each seed.
    pub kind: Option<Kind>,
}

impl Options {
    /// With a planted bug.
    #[must_use]
    pub fn with_bug(bug: Bug) -> Options {
        Options { bug: Some(bug), kind: None }
    }
}

/// Runs one seed. With `is_traced`, also returns the last events.
///
/// # Errors
/// The broken promise.
pub fn run_seed(seed: u64, options: Options, is_traced: bool) -> (Result<Summary, String>, Vec<String>) {
    let kind = options.kind.or_else(|| options.bug.map(Bug::kind));
    match kind.unwrap_or_else(|| Kind::of(seed)) {
        kind @ (Kind::Single | Kind::Operator | Kind::Crowd | Kind::Requests | Kind::Rules) => {
            let mut world = World::new(seed, options.bug, kind, is_traced);
            (caught(|| world.run()), world.trace().last(usize::MAX))
        }
        kind @ (Kind::Tiers | Kind::SetBack) => {
            let mut world = Tiers::new(seed, options.bug, kind == Kind::SetBack, is_traced);
            (caught(|| world.run()), world.trace().last(usize::MAX))
        }
    }
}

/// The result of a run. A panic is a broken promise, too.
fn caught(run: impl FnOnce() -> Result<Summary, Violation>) -> Result<Summary, String> {
    let result = catch_unwind(AssertUnwindSafe(run));
    match result {
        Ok(result) => result.map_err(|Violation(what)| what),
        Err(panic) => Err(format!("panic: {}", message_of(&*panic))),
    }
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Runs the seeds from `first` on, on `threads` threads, until `failures_max` failed. Long runs print their progress to stderr,
/// so that a killed run has shown which seeds failed.
#[must_use]
pub fn run_seeds(first: u64, seeds: u64, options: Options, threads: usize, failures_max: usize) -> Report {
    let next = AtomicU64::new(0);
    let report = Mutex::new(Report::default());
    let failures_max = failures_max.min(FAILURES_MAX);
    let locked = || report.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= seeds || locked().failures.len() >= failures_max {
                return;
            }
            let seed = first.wrapping_add(index);
            let (result, _) = run_seed(seed, options, false);
            let mut report = locked();
            report.seeds += 1;
            match result {
                Ok(summary) => {
                    report.steps += summary.steps;
                    report.acknowledged += summary.acknowledged;
                    report.starts += summary.starts;
                }
                Err(what) => report.failures.push(Failure { seed, what }),
            }
            if report.seeds.is_multiple_of(PROGRESS_SEEDS) && report.seeds < seeds {
                let failed: Vec<u64> = report.failures.iter().map(|failure| failure.seed).collect();
                eprintln!("simulate: {} of {seeds} seeds run; failed so far: {failed:?}", report.seeds);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.failures.sort_by_key(|failure| failure.seed);
    report
}
