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

use clap::Parser;

use options::{Disk, Options};

fn main() -> ExitCode {
    let options = Options::parse();
    let done = if options.disk != Disk::Well && !disks::has_own_mounts() {
        disks::run_in_own_mounts()
    } else {
        round::run(&options).map(|is_clean| u8::from(!is_clean))
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}
