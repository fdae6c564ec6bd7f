//! `bbq spool`: works on a data directory that no server uses.

mod cat;
mod check;
mod repair;
mod survey;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::arguments::{SpoolArguments, SpoolCommand};
use crate::outcome::{Outcome, misuse};

pub(crate) fn run(arguments: &SpoolArguments) -> anyhow::Result<Outcome> {
    let (directory, run): (&Path, &dyn Fn() -> anyhow::Result<Outcome>) = match &arguments.command {
        SpoolCommand::Check(arguments) => (&arguments.directory, &|| check::run(arguments)),
        SpoolCommand::Cat(arguments) => (&arguments.directory, &|| cat::run(arguments)),
        SpoolCommand::Repair(arguments) => (&arguments.directory, &|| repair::run(arguments)),
    };
    match fs::metadata(directory.join("spool")) {
        Ok(spool) if spool.is_dir() => run(),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(anyhow::anyhow!(
            "{}: {error}; run this as the user of the server, or as root",
            directory.display()
        )),
        _ => Err(misuse(anyhow::anyhow!(
            "{} is not a data directory: it has no directory \"spool\"; use the server's --data",
            directory.display()
        ))),
    }
}
