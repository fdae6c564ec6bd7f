//! `bbq completions`, `bbq man` and `bbq manual`: scripts for shells, and man pages, made from the definition of the options.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::process::{self, Stdio};

use anyhow::Context as _;
use clap::builder::Resettable;
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::arguments::{Arguments, CompletionsArguments, ManArguments, ManualArguments};
use crate::outcome::{Outcome, misuse};
use crate::spec_help;

pub(crate) fn complete(arguments: &CompletionsArguments) -> anyhow::Result<Outcome> {
    // In memory first: a closed pipe is an error of this command, and would be a panic of the generator.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "bbq", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Outcome::Done)
}

/// All commands, with their whole names: bbq-spool-cat.
fn commands() -> Command {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    command
}

/// Shows the page at a terminal, and prints its source elsewhere.
pub(crate) fn show(arguments: &ManArguments) -> anyhow::Result<Outcome> {
    let all = commands();
    let mut command = &all;
    for word in &arguments.command {
        let known = || command.get_subcommands().filter(|below| !below.is_hide_set()).map(Command::get_name);
        let Some(below) = command.find_subcommand(word).filter(|below| !below.is_hide_set()) else {
            let known: Vec<&str> = known().collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(misuse(anyhow::anyhow!(
                "{word:?} is not a command of {}; there are: {known}",
                command.get_name()
            )));
        };
        command = below;
    }
    let mut page = Vec::new();
    write_page(command, &mut page)?;
    let mut stdout = io::stdout();
    if stdout.is_terminal()
        && let Ok(mut man) = process::Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn()
    {
        if let Some(mut stdin) = man.stdin.take() {
            stdin.write_all(&page)?;
        }
        return Ok(if man.wait()?.success() { Outcome::Done } else { Outcome::Failed });
    }
    stdout.write_all(&page)?;
    Ok(Outcome::Done)
}

pub(crate) fn run(arguments: &ManualArguments) -> anyhow::Result<Outcome> {
    let directory = &arguments.directory;
    write_pages(&commands(), directory)
        .with_context(|| format!("cannot write the man pages into {}", directory.display()))?;
    Ok(Outcome::Done)
}

/// Writes the page of a command, and those of its commands.
fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, directory)?;
    }
    write_page(command, &mut File::create(directory.join(page_of(command).get_filename()))?)
}

fn page_of(command: &Command) -> Man {
    let without_notes = command.clone().after_help(Resettable::Reset).after_long_help(Resettable::Reset);
    // In place of a date, which nobody knows who builds again: without one, the other words would move into its place.
    Man::new(without_notes).date(env!("CARGO_PKG_VERSION")).source("bbq").manual("bbq")
}

fn write_page(command: &Command, out: &mut dyn Write) -> io::Result<()> {
    page_of(command).render(out)?;
    if command.get_name() == "serve" {
        return write_notes(&spec_help::long(), out);
    }
    match command.get_after_long_help().or_else(|| command.get_after_help()) {
        Some(notes) => write_notes(&notes.to_string(), out),
        None => Ok(()),
    }
}

/// Line by line, as they stand in the help: examples, and tables of words.
fn write_notes(notes: &str, mut out: &mut dyn Write) -> io::Result<()> {
    let mut section = Roff::new();
    section.control("SH", ["NOTES"]).control("nf", []);
    for line in notes.lines() {
        section.text([roman(line)]);
    }
    section.control("fi", []);
    section.to_writer(&mut out)
}
