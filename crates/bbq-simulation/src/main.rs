//! `cargo xtask simulate`: runs of the whole of bbq with a simulated disk, network and clock, each from one seed.

#![forbid(unsafe_code)]

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use bbq_simulation::bug::Bug;
use bbq_simulation::run::{run_seed, run_seeds};

const USAGE: &str = "\
Usage: cargo xtask simulate [--seeds N] [--seed S] [--trace] [--log] [--bug NAME] [--threads N]
  --seeds N    runs N seeds, from S on (default 20000)
  --seed S     the first seed; without --seeds, the only one
  --trace      prints what happens, of one seed
  --log        prints what the program logs, too
  --bug NAME   with a planted bug, which must be found; any other name lists them
  --threads N  default: one per processor";

/// Prints a line. That nobody reads it any more is no reason to panic.
macro_rules! say {
    ($($text:tt)*) => {{
        let _nobody_reads = writeln!(std::io::stdout(), $($text)*);
    }};
}

/// Events that a failing seed shows without --trace.
const LAST_EVENTS: usize = 60;

#[derive(Default)]
struct Arguments {
    seeds: Option<u64>,
    seed: Option<u64>,
    threads: Option<usize>,
    bug: Option<Bug>,
    is_traced: bool,
    is_logged: bool,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        match word.as_str() {
            "--seeds" => arguments.seeds = Some(number(value()?)?),
            "--seed" => arguments.seed = Some(number(value()?)?),
            "--threads" => arguments.threads = Some(number(value()?)? as usize),
            "--bug" => arguments.bug = Some(value()?.parse()?),
            "--trace" => arguments.is_traced = true,
            "--log" => arguments.is_logged = true,
            _ => return Err(format!("{word} is no option\n{USAGE}")),
        }
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    let words = std::env::args().skip(1);
    if std::env::args().any(|word| ["--help", "-h", "help"].contains(&word.as_str())) {
        say!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let arguments = match parse(words) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("simulate: {problem}");
            return ExitCode::from(2);
        }
    };
    if arguments.is_logged {
        let log = tracing_subscriber::fmt().without_time().with_writer(std::io::stdout);
        log.with_max_level(tracing::Level::INFO).init();
    }
    match (arguments.seed, arguments.seeds) {
        (Some(seed), None) => one(seed, &arguments),
        (first, seeds) => many(first.unwrap_or(1), seeds.unwrap_or(20_000), &arguments),
    }
}

fn one(seed: u64, arguments: &Arguments) -> ExitCode {
    let (result, trace) = run_seed(seed, arguments.bug, true);
    let shown = if arguments.is_traced {
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
    let report = run_seeds(first, seeds, arguments.bug, threads, failures_max);
    let bug = arguments.bug.map_or(String::new(), |bug| format!(" --bug {bug}"));
    for failure in &report.failures {
        say!("seed {}: {}", failure.seed, failure.what);
        say!("  repeat: cargo xtask simulate --seed {} --trace{bug}", failure.seed);
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
            let (_, trace) = run_seed(report.failures[0].seed, None, true);
            say!("the last events of seed {}:", report.failures[0].seed);
            for line in trace.iter().skip(trace.len().saturating_sub(LAST_EVENTS)) {
                say!("{line}");
            }
            ExitCode::FAILURE
        }
    }
}
