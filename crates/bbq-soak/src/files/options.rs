//! The command line of the world of files.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::options::clock;

/// Another program that reads the same files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Beside {
    /// The imfile of rsyslog, with the settings that are usual and with those that are safest
    Rsyslog,
    /// The filelog of an OpenTelemetry Collector that was built with it, with `file_storage` and the exporter to files
    Otelcol,
}

/// Writes numbered lines to files that are rotated in four ways, while their reader and the server behind it are killed
#[derive(Clone, Debug, Args)]
pub(crate) struct FilesOptions {
    /// How many lines are written to all files together
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) lines: u64,
    /// How many files there are; a quarter of them is rotated in each way
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(4..=10_000))]
    pub(crate) files: u64,
    /// How often the reader is killed, and the server behind it
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) kills: u64,
    /// How many rotations of each kind there are
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) rotations: u64,
    /// About how fast the lines are written
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) lines_per_second: u64,
    /// Repeats the script of a run [default: the time]
    #[arg(long, value_name = "S", default_value_t = clock(), hide_default_value = true)]
    pub(crate) seed: u64,
    /// Other programs that read the same files under the same kills
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) beside: Vec<Beside>,
    /// The program under test
    #[arg(long, value_name = "FILE", default_value = "target/release/bbq")]
    pub(crate) bbq: PathBuf,
    /// Where Debian's packages of rsyslog are unpacked
    #[arg(long, value_name = "DIR", default_value = "target/senders")]
    pub(crate) rsyslog: PathBuf,
    /// The Collector
    #[arg(long, value_name = "FILE", default_value = "target/otelcol/otelcol")]
    pub(crate) otelcol: PathBuf,
    /// Keeps the working directory
    #[arg(long)]
    pub(crate) keep: bool,
    /// The working directory; it is kept after a failure
    #[arg(long, value_name = "DIR", default_value = "target/files")]
    pub(crate) directory: PathBuf,
}

impl FilesOptions {
    /// The command that repeats the run.
    pub(crate) fn command(&self) -> String {
        let FilesOptions { lines, files, kills, rotations, lines_per_second, seed, .. } = self;
        let names = self.beside.iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
        let beside = if names.is_empty() { String::new() } else { format!(" --beside {}", names.join(",")) };
        format!(
            "cargo xtask soak files --lines {lines} --files {files} --kills {kills} --rotations {rotations} \
             --lines-per-second {lines_per_second} --seed {seed}{beside}"
        )
    }
}
