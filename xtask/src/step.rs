//! One step: a command that is shown, runs with its output on the terminal, and must succeed.

use std::process::Command;
use std::time::Instant;

/// Runs `program`, with variables of the environment set in front of it.
pub(crate) fn run(variables: &[(&str, &str)], program: &str, arguments: &[&str]) -> Result<(), String> {
    let shown = show(variables, program, arguments);
    eprintln!("xtask: {shown}");
    let begin = Instant::now();
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().copied());
    let status = command.status().map_err(|error| format!("cannot run {program}: {error}"))?;
    let seconds = begin.elapsed().as_secs();
    if status.success() {
        eprintln!("xtask: done in {seconds} s");
        return Ok(());
    }
    Err(format!("failed ({status}) after {seconds} s: {shown}"))
}

/// The cargo that runs this one.
pub(crate) fn cargo(variables: &[(&str, &str)], arguments: &[&str]) -> Result<(), String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    // Under rustup, CARGO names the toolchain's own binary; the name that a person would type reads better.
    run(variables, &cargo, arguments).map_err(|problem| problem.replace(&cargo, "cargo"))
}

fn show(variables: &[(&str, &str)], program: &str, arguments: &[&str]) -> String {
    let name = program.rsplit('/').next().unwrap_or(program);
    let variables = variables.iter().map(|(name, value)| format!("{name}='{value}'"));
    variables
        .chain([name.to_owned()])
        .chain(arguments.iter().map(|text| (*text).to_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}
