//! The page of the command line is what the program says of itself.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use crate::pages::{self, BBQ};

/// The page, below docs.
pub(crate) const PAGE: &str = "docs/COMMANDS.md";
/// If this variable is set, the page is written instead of compared.
const WRITE: &str = "BBQ_WRITE_TABLES";

const TOP: &str = "\
# The command line

This page is made from the program: each section is what `bbq COMMAND --help` prints.
`bbq man COMMAND` shows the same as a man page.
[Configuration](CONFIGURATION.md) explains the keys of the file, which have the names of the options of `bbq serve`, and [Exit codes](EXIT_CODES.md) lists \
 what each command returns.
";

fn help_of(command: &[String]) -> String {
    // Neither the terminal nor the configuration of whoever runs the test is part of the page.
    let output =
        Command::new(BBQ).args(command).arg("--help").env("COLUMNS", "100").env_remove("BBQ_ADMIN").output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The commands in a help: the rows of two columns, above the options.
fn commands_in(help: &str) -> Vec<String> {
    let commands = help.split("\nOptions:").next().unwrap_or_default();
    let rows = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  "));
    let names = rows.map(|(name, _)| name).filter(|name| *name != "help");
    names
        .filter(|name| {
            !name.is_empty() && name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
        })
        .map(str::to_owned)
        .collect()
}

/// Appends a section for a command, and for those below it.
fn add(command: &[String], page: &mut String) {
    let help = help_of(command);
    let name = [&["bbq".to_owned()], command].concat().join(" ");
    // An option without a text in its line has blanks there.
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    let _infallible = write!(page, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n"));
    // A command without commands has a table of words or none in front of its options.
    if command.is_empty() || help.contains("\nCommands:\n") {
        for below in commands_in(&help) {
            add(&[command, &[below]].concat(), page);
        }
    }
}

#[test]
fn the_page_of_the_command_line_is_what_the_program_says() {
    let mut made = TOP.to_owned();
    add(&[], &mut made);
    for command in
        ["## bbq serve\n", "## bbq sink rename\n", "## bbq spool repair\n", "## bbq config explain\n"]
    {
        assert!(made.contains(command), "no section {command}");
    }
    let path = pages::root().join(PAGE);
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, &made).expect(PAGE);
        return;
    }
    let present = fs::read_to_string(&path).unwrap_or_default();
    let first = made.lines().zip(present.lines()).find(|(made, present)| made != present);
    assert!(
        made == present,
        "{PAGE} is not what the program says; the first lines that differ: {first:?}\nmake it anew with\n    \
         {WRITE}=1 cargo test --release -p {} --test documentation",
        env!("CARGO_PKG_NAME")
    );
}
