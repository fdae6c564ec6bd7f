//! bbq, a burst queue: the command line.
//!
//! Exit codes: 0 success, 1 failure, 2 wrong usage or configuration, 128 plus the number of the signal that ended `bbq send`, `bbq tail` or `bbq bench`.
//! A broken pipe on standard output is not an error.

#![forbid(unsafe_code)]

mod admin_address;
mod arguments;
mod bench;
mod check;
mod check_cases;
mod explain;
mod file_options;
mod init;
mod listen_setup;
mod log_queue;
mod logging;
mod manual;
mod obstacles;
mod outcome;
mod question;
mod reload;
mod safe_text;
mod send;
mod serve;
mod shown_duration;
mod signals;
mod sink;
mod spec_help;
mod spool;
mod status;
mod status_table;
mod status_watch;
mod suggested;
mod tail;
mod time_left;
mod token;
mod top;
mod usage;

use std::process::ExitCode;

use arguments::Command;
use outcome::{Misuse, Outcome, complain};

fn main() -> ExitCode {
    let arguments = match usage::arguments() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    logging::start(matches!(arguments.command, Command::Serve(_)));
    let outcome = match arguments.command {
        Command::Init(arguments) => init::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Send(arguments) => send::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Reload(arguments) => reload::run(&arguments),
        Command::Sink(arguments) => sink::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Tail(arguments) => tail::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Config(arguments) => check::run_config(&arguments),
        Command::ListenSetup(arguments) => listen_setup::run(&arguments),
        Command::Spool(arguments) => spool::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Completions(arguments) => manual::complete(&arguments),
        Command::Man(arguments) => manual::show(&arguments),
        Command::Manual(arguments) => manual::run(&arguments),
        Command::BenchServer(arguments) => bench::serve(&arguments),
        Command::BenchLeash(arguments) => bench::leash(&arguments),
    };
    let is_read = logging::finish();
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::FAILURE,
        // The exit code that a shell shows for a program ended by a signal.
        Ok(Outcome::Signal(number)) => ExitCode::from(128 + number),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            if is_read {
                complain(&error);
            }
            if error.is::<Misuse>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
