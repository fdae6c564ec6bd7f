//! `bbq completions` and `bbq manual`: scripts for shells, and man pages, made from the definition of the options.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;
use clap::builder::Resettable;
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

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
    let mut command = Arguments::command().disable_help_subcommand(true);
    // Gives the commands their whole names: bbq-spool-cat.
    command.build();
    write_pages(&command, directory)
        .with_context(|| format!("cannot write the man pages into {}", directory.display()))?;
    Ok(Outcome::Done)
}

/// Writes the page of a command, and those of its commands.
fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, directory)?;
    }
    // In place of a date, which nobody knows who builds again: without one, the other words would move into its place.
    let without_notes = command.clone().after_help(Resettable::Reset).after_long_help(Resettable::Reset);
    let page = Man::new(without_notes).date(env!("CARGO_PKG_VERSION")).source("bbq").manual("bbq");
    let mut file = File::create(directory.join(page.get_filename()))?;
    page.render(&mut file)?;
    if let Some(notes) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        write_notes(&notes.to_string(), &mut file)?;
    }
    Ok(())
}

/// Line by line, as they stand in the help: examples, and tables of words.
fn write_notes(notes: &str, file: &mut File) -> io::Result<()> {
    let mut section = Roff::new();
    section.control("SH", ["NOTES"]).control("nf", []);
    for line in notes.lines() {
        section.text([roman(line)]);
    }
    section.control("fi", []);
    section.to_writer(file)
}
