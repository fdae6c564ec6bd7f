//! The command line of the soak.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Parser, ValueEnum};

/// What the disk under the data directory does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Disk {
    /// Nothing goes wrong
    #[value(name = "none")]
    Well,
    /// It is full at times
    Full,
    /// It is full at times, and at other times writes fail
    Errors,
}

/// How long faults are made.
#[derive(Clone, Debug, Args)]
pub(crate) struct Span {
    /// How many minutes the faults last; the last check comes afterwards
    #[arg(long, value_name = "N", default_value_t = 1)]
    minutes: u64,
    /// How many seconds the faults last
    #[arg(long, value_name = "N", conflicts_with = "minutes")]
    seconds: Option<u64>,
}

impl Span {
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(60 * self.minutes))
    }
}

/// Runs real servers and clients under faults, and accounts for every message
#[derive(Clone, Debug, Parser)]
#[command(name = "cargo xtask soak")]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) span: Span,
    /// Repeats the faults and settings of a run, but not their exact times [default: the time]
    #[arg(long, value_name = "S", default_value_t = clock(), hide_default_value = true)]
    pub(crate) seed: u64,
    /// The size of the spool's segments [default: drawn for each round]
    #[arg(long, value_name = "N")]
    pub(crate) segment_bytes: Option<u64>,
    /// The faults of the disk. `full` and `errors` need root, because they mount small file systems in a mount namespace
    #[arg(long, value_name = "FAULTS", default_value = "none")]
    pub(crate) disk: Disk,
    /// The program under test
    #[arg(long, value_name = "FILE", default_value = "target/release/bbq")]
    pub(crate) bbq: PathBuf,
    /// The working directory; it is kept after a failure
    #[arg(long, value_name = "DIR", default_value = "target/soak")]
    pub(crate) directory: PathBuf,
}

pub(crate) fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

impl Options {
    /// The command that repeats the run.
    pub(crate) fn command(&self) -> String {
        let segment_bytes =
            self.segment_bytes.map(|bytes| format!(" --segment-bytes {bytes}")).unwrap_or_default();
        let disk =
            self.disk.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        let seconds = self.span.duration().as_secs();
        format!("cargo xtask soak --seconds {seconds} --seed {}{segment_bytes} --disk {disk}", self.seed)
    }
}
