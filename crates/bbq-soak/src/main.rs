//! Runs real servers and clients of bbq under faults drawn from a seed, and accounts for every message: lost, doubled, out of
//! order, or never sent. `cargo xtask soak` builds and runs it.
//!
//! A run is a series of rounds. In each round, all clients send during faults of one theme. Then the faults end, and every client
//! waits for its acknowledgements. The server becomes quiet, and its ledger must balance. Then the server is stopped in order,
//! and the new part of the sink's file is checked.

#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "the state of other processes can only be polled, and faults take time"
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
