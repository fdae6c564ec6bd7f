//! Builds the released program and the soak, and runs it.

use crate::step;

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    step::cargo(&[], &["build", "--release", "--locked", "--package", "bbq", "--package", "bbq-soak"])?;
    step::run(&[], "target/release/bbq-soak", arguments)
}
