//! The tasks of this repository: `cargo xtask lint | test | python | check`. What it runs here is what runs everywhere else.
//!
//! Not here: anything of the product. It depends on nothing, because everybody who tries the project builds it first.

#![forbid(unsafe_code)]

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
  check    lint, then test: what a change must pass";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["lint"] => in_root().and_then(lint::run),
        ["test"] => in_root().and_then(suite::run),
        ["python"] => in_root().and_then(python::test),
        ["check"] => in_root().and_then(|root| lint::run(root).and_then(|()| suite::run(root))),
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

/// The repository this was built from; every step runs there.
fn in_root() -> Result<&'static Path, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().ok_or_else(|| format!("{} has no directory above it", here.display()))?;
    std::env::set_current_dir(root).map_err(|error| format!("cannot go to {}: {error}", root.display()))?;
    Ok(root)
}
