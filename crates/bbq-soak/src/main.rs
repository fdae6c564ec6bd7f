//! Runs real servers and clients of bbq under faults drawn from a seed, and accounts for every message: lost, doubled, out of
//! order, or never sent. `cargo xtask soak` builds and runs it. `cargo xtask soak chain` runs a chain of two servers and three sinks (`chain`), and
//! `cargo xtask soak edges` several servers whose sinks come and go (`edges`), and `cargo xtask soak files` readers of files that are
//! rotated (`files`).
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
mod chain;
mod clients;
mod disks;
mod edges;
mod faults;
mod files;
mod home;
mod message;
mod options;
mod output;
mod random;
mod round;
mod sender;
mod server;
mod settings;
mod watch;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use chain::options::ChainOptions;
use edges::options::EdgesOptions;
use files::options::FilesOptions;
use options::{Disk, Options};
use sender::SenderOptions;

// What to run instead of the soak; a comment for documentation would replace the text of the help.
#[derive(Debug, Subcommand)]
enum Task {
    Chain(ChainOptions),
    Edges(EdgesOptions),
    Files(FilesOptions),
    #[command(hide = true)]
    Sender(SenderOptions),
}

/// Runs real servers and clients under faults, and accounts for every message
#[derive(Debug, Parser)]
#[command(name = "cargo xtask soak", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    task: Option<Task>,
}

fn main() -> ExitCode {
    let Arguments { options, task } = Arguments::parse();
    let done = match task {
        Some(Task::Chain(options)) => chain::run(&options).map(|is_clean| u8::from(!is_clean)),
        Some(Task::Edges(options)) => edges::run(&options).map(|is_clean| u8::from(!is_clean)),
        Some(Task::Files(options)) => files::run(&options).map(|is_clean| u8::from(!is_clean)),
        Some(Task::Sender(options)) => sender::send(&options).map(|()| 0),
        None => soak(&options),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn soak(options: &Options) -> Result<u8> {
    if options.disk != Disk::Well && !disks::has_own_mounts() {
        disks::run_in_own_mounts()
    } else {
        round::run(options).map(|is_clean| u8::from(!is_clean))
    }
}
