//! Simulated runs, in the release profile: the more seeds a minute, the better.

use crate::step::cargo;

pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    let program = ["run", "--release", "--locked", "--quiet", "--package", "bbq-simulation", "--"];
    cargo(&[], &[&program[..], options].concat())
}
