//! `bbq bench`, and the server that it starts.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bbq_bench::{EXPERIMENTS, End, Experiment, Report, ServeOptions, Settings};

use crate::arguments::{BenchArguments, BenchEnd, BenchLeashArguments, BenchServerArguments};
use crate::outcome::{Outcome, misuse};

pub(crate) fn run(arguments: &BenchArguments) -> anyhow::Result<Outcome> {
    if arguments.experiments.is_empty() {
        let hint = "Run one with bbq bench NAME. docs/BENCH.md says how to read the tables.\n";
        std::io::stdout().lock().write_all((bbq_bench::list() + hint).as_bytes())?;
        return Ok(Outcome::Done);
    }
    let mut experiments = Vec::new();
    for name in &arguments.experiments {
        let before = experiments.len();
        experiments.extend(EXPERIMENTS.iter().filter(|found| name == "all" || found.name == name));
        if experiments.len() == before {
            return Err(misuse(unknown(name)));
        }
    }
    if !arguments.data.is_dir() {
        return Err(misuse(anyhow!("--data {}: no such directory", arguments.data.display())));
    }
    let program = match &arguments.bbq {
        None => std::env::current_exe().context("cannot find the path of this program")?,
        Some(path) => {
            path.canonicalize().map_err(|error| misuse(anyhow!("--bbq {}: {error}", path.display())))?
        }
    };
    if let Some(out) = &arguments.out {
        bbq_bench::prepare(out).context("--out").map_err(misuse)?;
    }
    let settings = Settings {
        duration: Duration::from_secs_f64(arguments.duration),
        rounds: arguments.rounds,
        peers: arguments.peers,
        directory: arguments.data.canonicalize().context("--data")?,
        program,
        workers: bbq_bench::workers(),
        distributions: arguments.distribution.clone(),
    };
    let mut outcome = Outcome::Done;
    for experiment in experiments {
        match measure(experiment, arguments, &settings)? {
            Outcome::Done => {}
            Outcome::Failed => outcome = Outcome::Failed,
            ended => return Ok(ended),
        }
    }
    Ok(outcome)
}

fn measure(
    experiment: &Experiment,
    arguments: &BenchArguments,
    settings: &Settings,
) -> anyhow::Result<Outcome> {
    let plan = experiment.plan(settings)?.keep(&arguments.only).context("--only").map_err(misuse)?;
    let report = bbq_bench::run(experiment, &plan, settings)?;
    if report.is_empty() {
        report.failures().iter().for_each(|failure| eprintln!("bbq: failed: {failure}"));
        eprintln!("bbq: interrupted before the first round was over; there are no results");
        return Ok(ended(&report));
    }
    let mut out = std::io::stdout().lock();
    if arguments.json {
        out.write_all(report.json()?.as_bytes())?;
    } else {
        out.write_all(report.text().as_bytes())?;
    }
    if let Some(directory) = &arguments.out {
        let page = report.write(directory)?;
        eprintln!("{}", page.display());
    }
    Ok(ended(&report))
}

fn ended(report: &Report) -> Outcome {
    match report.signal() {
        Some(number) => Outcome::Signal(number),
        None if report.is_complete() => Outcome::Done,
        None => Outcome::Failed,
    }
}

fn unknown(name: &str) -> anyhow::Error {
    let names: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
    anyhow!("there is no experiment {name:?}{}; there are {}", bbq_spec::hint(name, &names), names.join(", "))
}

/// Serves until standard input ends.
pub(crate) fn serve(arguments: &BenchServerArguments) -> anyhow::Result<Outcome> {
    bbq_bench::serve(&ServeOptions {
        listen: arguments.listen.clone(),
        workers: arguments.workers,
        distribution: arguments.distribution.clone(),
        steering: arguments.steering.clone(),
        steering_pins: arguments.steering_pins.clone(),
        work: Duration::from_micros(arguments.work_us),
        rescue: !arguments.no_rescue,
    })?;
    Ok(Outcome::Done)
}

/// Becomes another program.
pub(crate) fn leash(arguments: &BenchLeashArguments) -> anyhow::Result<Outcome> {
    let end = match arguments.end {
        BenchEnd::Kill => End::Kill,
        BenchEnd::Terminate => End::Terminate,
    };
    bbq_bench::leash(arguments.parent, end, &arguments.program, &arguments.arguments)?;
    Ok(Outcome::Done)
}
