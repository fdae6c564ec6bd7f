//! The tasks of this repository: `cargo xtask lint | test | python | simulate | soak | fuzz | instructions | check`. What it
//! runs here is what runs everywhere else.
//!
//! Not here: anything of the product. It depends on little, because everybody who tries the project builds it first: `syn`
//! reads the sources for `circles`.

#![forbid(unsafe_code)]

mod circles;
mod files;
mod fuzz;
mod instructions;
mod lint;
mod needs;
mod python;
mod simulate;
mod soak;
mod step;
mod suite;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask TASK
  lint     formatting, clippy, documentation, tidy, import circles
  test     installs what the tests need (as root; otherwise says what is missing), and runs them
  python   the Python package's tests alone, with the `bbq` that is built
  simulate [--seeds N] [--seed S] [--trace] [--bug NAME]
           runs of the whole of bbq with a simulated disk, network and clock; --help says more
  instructions [--update]
           counts the instructions of the hot paths and compares; --update writes down what it counted
  soak [--minutes N] [--seed S] ...
           real servers and clients under faults, every message counted; `cargo xtask soak --help` has all options
  fuzz TARGET [--seconds N]
           a target of fuzz/fuzz_targets, 60 seconds unless it says otherwise
  check    lint, test and instructions: what a change must pass";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["lint"] => in_root().and_then(lint::run),
        ["test"] => in_root().and_then(suite::run),
        ["python"] => in_root().and_then(python::test),
        ["simulate", ref options @ ..] => in_root().and_then(|_| simulate::run(options)),
        ["instructions"] => in_root().and_then(instructions::check),
        ["instructions", "--update"] => in_root().and_then(instructions::update),
        ["soak", ref rest @ ..] => in_root().and_then(|_| soak::run(rest)),
        ["fuzz", target] => in_root().and_then(|root| fuzz::run(root, target, "60")),
        ["fuzz", target, "--seconds", seconds] => in_root().and_then(|root| fuzz::run(root, target, seconds)),
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

fn check(root: &Path) -> Result<(), String> {
    lint::run(root)?;
    suite::run(root)?;
    instructions::check(root)
}

/// The repository this was built from; every step runs there.
fn in_root() -> Result<&'static Path, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().ok_or_else(|| format!("{} has no directory above it", here.display()))?;
    std::env::set_current_dir(root).map_err(|error| format!("cannot go to {}: {error}", root.display()))?;
    Ok(root)
}
