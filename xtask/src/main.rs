//! The tasks of this repository: `cargo xtask lint | test | python | book | simulate | soak | fuzz | instructions | dist |
//! check`. The
//! continuous integration runs the same tasks.
//!
//! It has few dependencies, because it is built first: `syn` reads the sources for `circles` and `api`.

#![forbid(unsafe_code)]

mod api;
mod beside;
mod book;
mod circles;
mod dist;
mod files;
mod fuzz;
mod go;
mod go_server;
mod instructions;
mod kafka;
mod kubernetes;
mod libraries;
mod lint;
mod needs;
mod python;
mod step;
mod suite;
mod tally;
mod test_program;
mod tidy;
mod unpacked;
mod watched;

use std::path::Path;
use std::process::ExitCode;

use go_server::{NATS, VERSITYGW};

const USAGE: &str = "\
Usage: cargo xtask TASK
  lint     check formatting, clippy, documentation, the rules of tidy, import circles, and the lists of public items
  api [--update]
           compare the public items of the libraries with their lists (public-api.txt); --update rewrites the lists
  test     run all tests, and end with their counts, the names of those that failed, and how to run each again;
           as root, first install the programs that the tests need; otherwise name those that are missing
  python   run the tests of the Python package alone, with the `bbq` that is built
  book     build the book of docs/ with mdBook, which it installs into target/mdbook, in target/book, and check its links
  simulate [--seeds N] [--seed S] [--trace] [--bug NAME] [--world KIND]
           run the whole of bbq with a simulated disk, network and clock; --help explains the options
  instructions [--update]
           count the instructions of the hot paths and compare them with the table; --update rewrites the table
  soak [--minutes N] [--seed S] ...
           run real servers and clients under faults and account for every message; `cargo xtask soak --help` lists
           the options
  soak chain [--messages N] [--kills N] [--seed S] ...
           send numbered messages through two servers to a file, JetStream, Kafka and S3, while each process is
           killed
  soak edges [--minutes N] [--seed S] ...
           send through two edges to a centre by clients with two servers each, while each process is killed, and
           sinks are added and removed
  soak files [--lines N] [--files N] [--kills N] [--rotations N] [--seed S] [--beside rsyslog]
           write numbered lines to files that are rotated, and kill their reader and the server behind it, also beside
           rsyslog
  fuzz TARGET [--seconds N]
           run a target of fuzz/fuzz_targets, for 60 seconds by default
  dist     make what a release consists of, in target/dist: packages, a static program, crates, a wheel
  dist --test
           install the packages that were made, upgrade over them and remove them, with systemd, in a view of this machine
           that is thrown away; as root
  check    run lint, test and instructions: a change must pass all three

With --as-tested as their first option, simulate, soak and instructions run the program that `test` has built, and build nothing;
`dist --test --as-tested` makes packages of it, and installs those.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["lint"] => in_root().and_then(lint::run),
        ["api"] => in_root().and_then(api::check),
        ["api", "--update"] => in_root().and_then(api::update),
        ["test"] => in_root().and_then(suite::run),
        ["book"] => in_root().and_then(book::run),
        ["python"] => in_root().and_then(suite::run_python),
        ["simulate", ref options @ ..] => in_root().and_then(|_| simulate(options)),
        ["instructions"] => in_root().and_then(instructions::check),
        ["instructions", "--as-tested"] => in_root().and_then(instructions::check_as_tested),
        ["instructions", "--update"] => in_root().and_then(instructions::update),
        ["soak", "chain", ref rest @ ..] => in_root().and_then(|root| chain(root, rest)),
        ["soak", "files", ref rest @ ..] => in_root().and_then(|_| rotated_files(rest)),
        ["soak", ref rest @ ..] => in_root().and_then(|_| soak(rest)),
        ["fuzz", target] => in_root().and_then(|root| fuzz::run(root, target, "60")),
        ["fuzz", target, "--seconds", seconds] => in_root().and_then(|root| fuzz::run(root, target, seconds)),
        ["dist"] => in_root().and_then(dist::run),
        ["dist", "--test"] => in_root().and_then(dist::test),
        ["dist", "--test", "--as-tested"] => in_root().and_then(dist::test_as_tested),
        ["check"] => in_root().and_then(check),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("xtask: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(options: &[&str]) -> Result<(), String> {
    if let ["--as-tested", options @ ..] = options {
        return as_tested("bbq-simulation", options);
    }
    let program = ["run", "--release", "--locked", "--quiet", "--package", "bbq-simulation", "--"];
    step::cargo(&[], &[&program[..], options].concat())
}

fn soak(options: &[&str]) -> Result<(), String> {
    if let ["--as-tested", options @ ..] = options {
        return as_tested("bbq-soak", options);
    }
    step::cargo(
        &[],
        &["build", "--release", "--locked", "--package", step::PACKAGE, "--package", "bbq-soak"],
    )?;
    step::run(&[], &step::built("bbq-soak")?, options)
}

/// Builds bbq with every sink, gets the brokers, and kills them all.
fn chain(root: &Path, options: &[&str]) -> Result<(), String> {
    NATS.provide(root)?;
    kafka::provide(root)?;
    VERSITYGW.provide(root)?;
    let (packages, feature) = (
        ["--package", step::PACKAGE, "--package", "bbq-soak"],
        format!("{}/{}", step::PACKAGE, step::EVERY_SINK),
    );
    let build = [&["build", "--release", "--locked", "--features", &feature], &packages[..]].concat();
    step::cargo(&[], &build)?;
    step::run(&[], &step::built("bbq-soak")?, &[&["chain"], options].concat())
}

/// Gets rsyslog if it is asked for, and reads files that are rotated.
fn rotated_files(options: &[&str]) -> Result<(), String> {
    if options.iter().any(|option| option.contains("rsyslog")) {
        unpacked::provide()?;
    }
    soak(&[&["files"], options].concat())
}

/// Runs a program as `cargo xtask test` has built it. Without the other packages of the workspace, cargo gives its dependencies other
/// features, and would build them again.
fn as_tested(name: &str, options: &[&str]) -> Result<(), String> {
    step::run(&[], &step::built(name)?, options)
}

fn check(root: &Path) -> Result<(), String> {
    lint::run(root)?;
    suite::run(root)?;
    instructions::check_as_tested(root)
}

/// Changes to the directory of the repository, in which every step runs.
fn in_root() -> Result<&'static Path, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().ok_or_else(|| format!("{} has no directory above it", here.display()))?;
    std::env::set_current_dir(root).map_err(|error| format!("cannot go to {}: {error}", root.display()))?;
    Ok(root)
}
