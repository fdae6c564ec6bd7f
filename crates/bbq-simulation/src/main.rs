//! `cargo xtask simulate`: runs of the whole of bbq with a simulated disk, network and clock, each from one seed.

#![forbid(unsafe_code)]

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use bbq_simulation::bug::Bug;
use bbq_simulation::kind::Kind;
use bbq_simulation::run::{Options, run_seed, run_seeds};
use clap::Parser;

/// Prints a line. Unlike `println!`, it does not panic when standard output is closed.
macro_rules! say {
    ($($text:tt)*) => {{
        let _closed = writeln!(std::io::stdout(), $($text)*);
    }};
}

/// Events that a failing seed shows without --trace.
const LAST_EVENTS: usize = 60;

/// Runs the whole of bbq with a simulated disk, network and clock, each run from one seed
#[derive(Parser)]
#[command(name = "cargo xtask simulate")]
struct Arguments {
    /// How many seeds to run, from S on [default: 20000, or only S]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// The first seed [default: 1]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Print the events of the run, for one seed
    #[arg(long)]
    trace: bool,
    /// Print what the program logs, too
    #[arg(long)]
    log: bool,
    /// Plant a bug, which must be found
    #[arg(long, value_name = "NAME")]
    bug: Option<Bug>,
    /// The kind of every world, instead of that of each seed
    #[arg(long, value_name = "KIND")]
    world: Option<Kind>,
    /// How many threads run seeds [default: one per processor]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl Arguments {
    fn options(&self) -> Options {
        Options { bug: self.bug, kind: self.world }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.log {
        let log = tracing_subscriber::fmt().without_time().with_writer(std::io::stdout);
        log.with_max_level(tracing::Level::INFO).init();
    }
    match (arguments.seed, arguments.seeds) {
        (Some(seed), None) => one(seed, &arguments),
        (first, seeds) => many(first.unwrap_or(1), seeds.unwrap_or(20_000), &arguments),
    }
}

fn one(seed: u64, arguments: &Arguments) -> ExitCode {
    let (result, trace) = run_seed(seed, arguments.options(), true);
    let shown = if arguments.trace {
        trace.len()
    } else if result.is_err() {
        LAST_EVENTS
    } else {
        0
    };
    for line in trace.iter().skip(trace.len() - shown.min(trace.len())) {
        say!("{line}");
    }
    match result {
        Ok(summary) => {
            say!("seed {seed}: every promise was kept: {summary:?}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            say!("seed {seed}: {what}");
            ExitCode::FAILURE
        }
    }
}

fn many(first: u64, seeds: u64, arguments: &Arguments) -> ExitCode {
    let threads =
        arguments.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let failures_max = if arguments.bug.is_some() { 1 } else { usize::MAX };
    let begin = Instant::now();
    let report = run_seeds(first, seeds, arguments.options(), threads, failures_max);
    let mut options = arguments.bug.map_or(String::new(), |bug| format!(" --bug {bug}"));
    if let Some(kind) = arguments.world {
        options.push_str(&format!(" --world {kind}"));
    }
    for failure in &report.failures {
        say!("seed {}: {}", failure.seed, failure.what);
        say!("  repeat: cargo xtask simulate --seed {} --trace{options}", failure.seed);
    }
    say!(
        "{} seeds from {first} in {:.1} s: {} steps, {} starts of a server, {} records acknowledged, {} seeds failed",
        report.seeds,
        begin.elapsed().as_secs_f64(),
        report.steps,
        report.starts,
        report.acknowledged,
        report.failures.len()
    );
    match (report.failures.is_empty(), arguments.bug) {
        (true, None) | (false, Some(_)) => ExitCode::SUCCESS,
        (true, Some(bug)) => {
            say!("the planted bug {bug} was not found");
            ExitCode::FAILURE
        }
        (false, None) => {
            let (_, trace) = run_seed(report.failures[0].seed, arguments.options(), true);
            say!("the last events of seed {}:", report.failures[0].seed);
            for line in trace.iter().skip(trace.len().saturating_sub(LAST_EVENTS)) {
                say!("{line}");
            }
            ExitCode::FAILURE
        }
    }
}
