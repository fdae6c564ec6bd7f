//! What the soak is told.

use std::path::PathBuf;
use std::time::Duration;

pub(crate) const USAGE: &str = "\
Usage: cargo xtask soak [--minutes N | --seconds N] [--seed S] [--segment-bytes N] [--disk full|errors|none]
                        [--bbq FILE] [--directory DIR]
  --minutes, --seconds   how long faults are made; the last check comes after it [default: 1 minute]
  --seed                 repeats the faults and settings of a run; their moments differ [default: the clock's]
  --segment-bytes        the spool's segments, instead of sizes drawn for each round
  --disk                 what the disk does: `full` fills it at times, `errors` also makes real write errors; both need
                         root, as they mount small file systems in a mount namespace of their own [default: none]
  --bbq                  the program under test
  --directory            where to work; kept when something is wrong [default: target/soak]";

/// What the disk under the data directory does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    Well,
    Full,
    Errors,
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) duration: Duration,
    pub(crate) seed: u64,
    pub(crate) segment_bytes: Option<u64>,
    pub(crate) disk: Disk,
    pub(crate) bbq: PathBuf,
    pub(crate) directory: PathBuf,
}

impl Options {
    /// Reads the words behind the program's name; `Err` says what is wrong with them.
    pub(crate) fn parse(words: &[String], clock: u64) -> Result<Options, String> {
        let mut options = Options {
            duration: Duration::from_secs(60),
            seed: clock,
            segment_bytes: None,
            disk: Disk::Well,
            bbq: PathBuf::from("target/release/bbq"),
            directory: PathBuf::from("target/soak"),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--minutes" => options.duration = Duration::from_secs(60 * number(word, value()?)?),
                "--seconds" => options.duration = Duration::from_secs(number(word, value()?)?),
                "--seed" => options.seed = number(word, value()?)?,
                "--segment-bytes" => options.segment_bytes = Some(number(word, value()?)?),
                "--bbq" => options.bbq = value()?.into(),
                "--directory" => options.directory = value()?.into(),
                "--disk" => {
                    options.disk = match value()?.as_str() {
                        "none" => Disk::Well,
                        "full" => Disk::Full,
                        "errors" => Disk::Errors,
                        other => return Err(format!("--disk {other}: allowed are none, full, errors")),
                    }
                }
                other => return Err(format!("{other}: unknown")),
            }
        }
        Ok(options)
    }

    /// The command that repeats the run.
    pub(crate) fn command(&self) -> String {
        let segment_bytes =
            self.segment_bytes.map(|bytes| format!(" --segment-bytes {bytes}")).unwrap_or_default();
        let disk = match self.disk {
            Disk::Well => "none",
            Disk::Full => "full",
            Disk::Errors => "errors",
        };
        let seconds = self.duration.as_secs();
        format!("cargo xtask soak --seconds {seconds} --seed {}{segment_bytes} --disk {disk}", self.seed)
    }
}

fn number(word: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{word} {value}: not a number from 0 on"))
}
