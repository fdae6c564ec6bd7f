//! The command line of a world of several servers.

use std::path::PathBuf;

use clap::Args;

use crate::options::{Span, clock};

/// Sends messages by clients with two servers each over two edges to a central server, while everything is killed, and sinks are
/// added and removed
#[derive(Clone, Debug, Args)]
pub(crate) struct EdgesOptions {
    #[command(flatten)]
    pub(crate) span: Span,
    /// Repeats the faults and settings of a run, but not their exact times [default: the time]
    #[arg(long, value_name = "S", default_value_t = clock(), hide_default_value = true)]
    pub(crate) seed: u64,
    /// The program under test
    #[arg(long, value_name = "FILE", default_value = "target/release/bbq")]
    pub(crate) bbq: PathBuf,
    /// The working directory; it is kept after a failure
    #[arg(long, value_name = "DIR", default_value = "target/edges")]
    pub(crate) directory: PathBuf,
}

impl EdgesOptions {
    /// The command that repeats the run.
    pub(crate) fn command(&self) -> String {
        let seconds = self.span.duration().as_secs();
        format!("cargo xtask soak edges --seconds {seconds} --seed {}", self.seed)
    }
}
