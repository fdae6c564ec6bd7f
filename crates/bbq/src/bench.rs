//! `bbq bench`, and the server that it starts.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use bbq_bench::{EXPERIMENTS, End, Report, ServeOptions, Service, Settings};

use crate::arguments::{BenchArguments, BenchEnd, BenchLeashArguments, BenchServerArguments, BenchService};
use crate::outcome::Outcome;

pub(crate) fn run(arguments: &BenchArguments) -> anyhow::Result<Outcome> {
    let Some(name) = &arguments.experiment else {
        let hint = "One of them: bbq bench NAME. docs/BENCH.md says how to read the tables.\n";
        std::io::stdout().lock().write_all((bbq_bench::list() + hint).as_bytes())?;
        return Ok(Outcome::Done);
    };
    let Some(experiment) = EXPERIMENTS.iter().find(|experiment| experiment.name == name) else {
        return Ok(Outcome::Misused(unknown(name)));
    };
    if !arguments.data.is_dir() {
        return Ok(Outcome::Misused(anyhow::anyhow!(
            "--data {}: no such directory",
            arguments.data.display()
        )));
    }
    if let Some(Err(error)) = arguments.out.as_deref().map(bbq_bench::prepare) {
        return Ok(Outcome::Misused(error.context("--out")));
    }
    let settings = Settings {
        duration: Duration::from_secs_f64(arguments.duration),
        rounds: arguments.rounds,
        peers: arguments.peers,
        directory: arguments.data.canonicalize().context("--data")?,
        program: std::env::current_exe().context("cannot tell which program this is")?,
        workers: bbq_bench::workers(),
    };
    let report = bbq_bench::run(experiment, &settings)?;
    if report.is_empty() {
        report.failures().iter().for_each(|failure| eprintln!("bbq: failed: {failure}"));
        eprintln!("bbq: interrupted before the first round was over, so there is nothing to show");
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
    anyhow::anyhow!("there is no experiment {name:?}; there are {}", names.join(", "))
}

/// Serves until standard input ends.
pub(crate) fn serve(arguments: &BenchServerArguments) -> anyhow::Result<Outcome> {
    bbq_bench::serve(&ServeOptions {
        service: match arguments.service {
            BenchService::Http => Service::Http,
            BenchService::Greeter => Service::Greeter,
            BenchService::Names => Service::Names,
        },
        listen: arguments.listen.clone(),
        workers: arguments.workers,
        distribution: arguments.distribution.clone(),
        work: Duration::from_micros(arguments.work_us),
        rescue: !arguments.no_rescue,
        logs: arguments.logs.clone(),
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
