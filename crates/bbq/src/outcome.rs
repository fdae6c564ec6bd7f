//! How a command ends, and how a failure is told.

use std::io::Write as _;

/// How a command ended.
pub(crate) enum Outcome {
    /// As asked.
    Done,
    /// Not, and it was said why.
    Failed,
    /// By the signal of this number, and it was said what is left, or what was done until then.
    Signal(u8),
    /// What was asked for is wrong.
    Misused(anyhow::Error),
}

/// The exit code counts, also when nobody reads standard error: `eprintln!` would panic.
pub(crate) fn complain(error: &anyhow::Error) {
    let _nobody_reads = writeln!(std::io::stderr(), "bbq: {error:#}");
}
