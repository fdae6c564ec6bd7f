//! Builds the program in the release profile and the soak, and runs the soak.

use crate::step;

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    step::cargo(&[], &["build", "--release", "--locked", "--package", "bbq", "--package", "bbq-soak"])?;
    step::run(&[], "target/release/bbq-soak", arguments)
}
