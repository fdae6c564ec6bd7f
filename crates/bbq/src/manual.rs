//! `bbq completions` and `bbq manual`: scripts for shells, and man pages, made from the definition of the options.

use std::io::Write as _;

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::arguments::{Arguments, CompletionsArguments, ManualArguments};
use crate::outcome::Outcome;

pub(crate) fn complete(arguments: &CompletionsArguments) -> anyhow::Result<Outcome> {
    // In memory first: a closed pipe is an error of this command, and would be a panic of the generator.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "bbq", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Outcome::Done)
}

pub(crate) fn run(arguments: &ManualArguments) -> anyhow::Result<Outcome> {
    let directory = &arguments.directory;
    let command = Arguments::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, directory)
        .with_context(|| format!("cannot write the man pages into {}", directory.display()))?;
    Ok(Outcome::Done)
}
