//! The tasks of this repository: `cargo xtask lint | test | python | instructions | check`. What it runs here is what runs
//! everywhere else.
//!
//! Not here: anything of the product. It depends on nothing, because everybody who tries the project builds it first.

#![forbid(unsafe_code)]

mod instructions;
mod lint;
mod needs;
mod python;
mod step;
mod suite;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask TASK
  lint     formatting, clippy, documentation, tidy
  test     installs what the tests need (as root; otherwise says what is missing), and runs them
  python   the Python package's tests alone, with the `bbq` that is built
  instructions [--update]
           counts the instructions of the hot paths and compares; --update writes down what it counted
  check    lint, test and instructions: what a change must pass";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["lint"] => in_root().and_then(lint::run),
        ["test"] => in_root().and_then(suite::run),
        ["python"] => in_root().and_then(python::test),
        ["instructions"] => in_root().and_then(instructions::check),
        ["instructions", "--update"] => in_root().and_then(instructions::update),
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
