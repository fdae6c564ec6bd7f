//! How a command ends, and how it reports a failure.

use std::fmt;
use std::io::Write as _;

pub(crate) enum Outcome {
    Done,
    /// The command failed, and has printed why.
    Failed,
    /// A signal with this number ended the command, which has reported its results.
    Signal(u8),
}

/// Wrong usage or configuration.
#[derive(Debug)]
pub(crate) struct Misuse(anyhow::Error);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Misuse {}

/// Makes an error that ends the command with exit code 2.
pub(crate) fn misuse(error: impl Into<anyhow::Error>) -> anyhow::Error {
    Misuse(error.into()).into()
}

/// Prints an error. `eprintln!` would panic if standard error is closed.
pub(crate) fn complain(error: &anyhow::Error) {
    let _closed = writeln!(std::io::stderr(), "bbq: {error:#}");
}
