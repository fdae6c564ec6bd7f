//! One step: a command that is shown, runs with its output on the terminal, and must succeed.

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use crate::watched::{self, Hangs, SILENCE_MAX};

/// The program, and the Python module.
pub(crate) const PROGRAM: &str = "bbq";
/// The crate that has the program, and the distribution that has the Python module: in the public indexes, `bbq` is another project in
/// both. Its other places are crates/bbq/Cargo.toml, bindings/python/pyproject.toml and docs/INSTALL.md.
pub(crate) const PACKAGE: &str = "bbq-queue";

/// The feature of [`PACKAGE`] and `bbq-server` that has every sink. Packages of the workspace without it are built as they are.
pub(crate) const EVERY_SINK: &str = "full";

/// Builds what is packaged: the lines of its code go to the package of the debug symbols.
pub(crate) const WITH_LINES: [(&str, &str); 1] = [("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")];

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// A program that was built, by its place in the directory of the release profile.
pub(crate) fn built(name: &str) -> Result<String, String> {
    let program = target_directory().join("release").join(name);
    let shown = program.display().to_string();
    if program.exists() { Ok(shown) } else { Err(format!("there is no {shown}; run cargo xtask test first")) }
}

/// Takes the variables from a command that cargo has set for this program alone. Build scripts, such as that of ring, run again when they
/// change: without this, what is built here and what a developer builds by cargo would replace each other.
pub(crate) fn without_own_package(mut command: Command) -> Command {
    const OF_PACKAGE: [&str; 5] =
        ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_CRATE_NAME", "CARGO_BIN_NAME", "OUT_DIR"];
    let is_of_package = |name: &str| name.starts_with("CARGO_PKG_") || OF_PACKAGE.contains(&name);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs `program`, with variables of the environment set in front of it.
pub(crate) fn run(variables: &[(&str, &str)], program: &str, arguments: &[&str]) -> Result<(), String> {
    timed(&shown(variables, program, arguments), || {
        let mut command = without_own_package(Command::new(program));
        command.args(arguments).envs(variables.iter().copied());
        command.status().map_err(|error| format!("cannot run {program}: {error}"))
    })
}

/// Runs what runs test programs, and calls `watch` for each line of its standard output and standard error together, which shows it.
pub(crate) fn run_watched(
    variables: &[(&str, &str)],
    program: &str,
    arguments: &[&str],
    watch: &mut dyn FnMut(&[u8]),
) -> Result<(), String> {
    timed(&shown(variables, program, arguments), || {
        let mut command = without_own_package(watched::hearing_interrupts(program));
        command.args(arguments).envs(variables.iter().copied());
        let status = watched::status(command, Hangs::Below, SILENCE_MAX, watch);
        status.map_err(|error| format!("cannot run {program}: {error}"))
    })
}

/// Runs `program` as [`run`] does, and returns its standard output.
fn run_and_read(variables: &[(&str, &str)], program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut read = Vec::new();
    timed(&shown(variables, program, arguments), || {
        let mut command = without_own_package(Command::new(program));
        command.args(arguments).envs(variables.iter().copied()).stderr(Stdio::inherit());
        let output = command.output().map_err(|error| format!("cannot run {program}: {error}"))?;
        read = output.stdout;
        Ok(output.status)
    })?;
    Ok(String::from_utf8_lossy(&read).into_owned())
}

/// Runs the cargo that runs this program.
pub(crate) fn cargo(variables: &[(&str, &str)], arguments: &[&str]) -> Result<(), String> {
    let cargo = path_of_cargo();
    run(variables, &cargo, arguments).map_err(|problem| named(&problem, &cargo))
}

/// The same for tests.
pub(crate) fn cargo_watched(
    variables: &[(&str, &str)],
    arguments: &[&str],
    watch: &mut dyn FnMut(&[u8]),
) -> Result<(), String> {
    let cargo = path_of_cargo();
    run_watched(variables, &cargo, arguments, watch).map_err(|problem| named(&problem, &cargo))
}

/// The same, and returns what cargo prints to its standard output.
pub(crate) fn cargo_and_read(variables: &[(&str, &str)], arguments: &[&str]) -> Result<String, String> {
    let cargo = path_of_cargo();
    run_and_read(variables, &cargo, arguments).map_err(|problem| named(&problem, &cargo))
}

fn path_of_cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Replaces the path of cargo by its name: under rustup, CARGO is the path of the toolchain's binary.
fn named(problem: &str, cargo: &str) -> String {
    problem.replace(cargo, "cargo")
}

fn timed(shown: &str, status: impl FnOnce() -> Result<ExitStatus, String>) -> Result<(), String> {
    eprintln!("xtask: {shown}");
    let begin = Instant::now();
    let status = status()?;
    let seconds = begin.elapsed().as_secs();
    if status.success() {
        eprintln!("xtask: done in {seconds} s: {shown}");
        return Ok(());
    }
    Err(format!("failed ({status}) after {seconds} s: {shown}"))
}

fn shown(variables: &[(&str, &str)], program: &str, arguments: &[&str]) -> String {
    let name = program.rsplit('/').next().unwrap_or(program);
    let variables = variables.iter().map(|(name, value)| format!("{name}='{value}'"));
    variables
        .chain([name.to_owned()])
        .chain(arguments.iter().map(|text| (*text).to_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}
