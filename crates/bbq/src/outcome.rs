//! How a command ends, and how it reports a failure.

use std::io::Write as _;

pub(crate) enum Outcome {
    Done,
    /// The command failed, and has printed why.
    Failed,
    /// A signal with this number ended the command, which has reported its results.
    Signal(u8),
    /// Wrong usage or configuration.
    Misused(anyhow::Error),
}

/// Prints an error. `eprintln!` would panic if standard error is closed.
pub(crate) fn complain(error: &anyhow::Error) {
    let _closed = writeln!(std::io::stderr(), "bbq: {error:#}");
}
