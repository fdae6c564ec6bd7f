//! Runs real servers and clients of bbq for a while, makes faults that a seed draws, and counts every message: which are
//! lost, doubled, out of order, or were never sent. `cargo xtask soak` builds and runs it.
//!
//! The time is made of rounds. In each, all clients send while faults of one theme are made; then the faults end, every
//! client waits for what it is owed, the server becomes quiet, its ledger must balance, it is stopped in order, and what is
//! new in the sink's file is judged.

#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "what happens to other processes is seen by looking, and faults take time"
)]

mod admin;
mod book;
mod clients;
mod disks;
mod faults;
mod message;
mod options;
mod output;
mod random;
mod round;
mod server;
mod settings;
mod watch;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use options::{Disk, Options, USAGE};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let options = match Options::parse(&words, clock) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("soak: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if options.disk != Disk::Well && !disks::has_own_mounts() {
        return match disks::run_in_own_mounts() {
            Ok(code) => ExitCode::from(code),
            Err(error) => failed(&error),
        };
    }
    match round::run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("soak: {error:#}");
    ExitCode::FAILURE
}
