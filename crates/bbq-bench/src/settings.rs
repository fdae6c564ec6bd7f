//! What a user may choose about a run.

use std::path::PathBuf;
use std::time::Duration;

/// Long enough that processor time counted in ticks of 10 ms is good to a few percent.
pub const DURATION_DEFAULT: Duration = Duration::from_secs(1);
/// A row that wins every one of five rounds did so by luck once in 32 times.
pub const ROUNDS_DEFAULT: u32 = 5;

/// How to run an experiment.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long the load of one row lasts in one round.
    pub duration: Duration,
    /// How often every row is measured, at least 1.
    pub rounds: u32,
    /// Whether other servers are measured as well, where they are installed.
    pub peers: bool,
    /// On the disk to measure on. A directory is made in it for each sample and removed; the sample's settings have that one.
    pub directory: PathBuf,
    /// The bbq program, for the servers.
    pub program: PathBuf,
    /// Workers of every server.
    pub workers: usize,
    /// Distributions of the examples, instead of the experiment's own; the first is held to the marks.
    pub distributions: Vec<String>,
}

#[cfg(test)]
impl Settings {
    /// Of one short round.
    pub(crate) fn blank() -> Settings {
        Settings {
            duration: Duration::from_millis(1),
            rounds: 1,
            peers: false,
            directory: std::env::temp_dir(),
            program: "bbq".into(),
            workers: 1,
            distributions: Vec::new(),
        }
    }
}
