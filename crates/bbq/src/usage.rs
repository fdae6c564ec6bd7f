//! Reads the command line, and says what may have been meant by what it does not understand.

use std::io::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{CommandFactory as _, Parser as _};

use crate::arguments::Arguments;

/// Or the exit code: what is wrong is told then, or the help that was asked for is shown.
pub(crate) fn arguments() -> Result<Arguments, ExitCode> {
    Arguments::try_parse().map_err(|mut error| {
        let command = std::env::args_os().nth(1).unwrap_or_default();
        let hint = hint(&error, &command.to_string_lossy());
        if hint.is_some() {
            // A word that only looks similar.
            error.remove(ContextKind::SuggestedSubcommand);
        }
        // A closed terminal changes nothing of the exit code.
        let _printed = error.print();
        if let Some(hint) = hint {
            let _printed = writeln!(std::io::stderr(), "\n  tip: {hint}");
        }
        u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
    })
}

fn hint(error: &Error, command: &str) -> Option<String> {
    fixed_hint(error, command).map(str::to_owned).or_else(|| {
        let word = text(error, ContextKind::InvalidSubcommand);
        if word == command { below_another(word) } else { None }
    })
}

/// The command that has this word as a command of its own: `resend` is one of `bbq sink`.
fn below_another(word: &str) -> Option<String> {
    let program = Arguments::command();
    let groups = program.get_subcommands().filter(|group| !group.is_hide_set());
    let mut found =
        groups.filter_map(|group| Some((group.get_name(), group.find_subcommand(word)?.get_about()?)));
    found.next().map(|(group, about)| format!("`bbq {group} {word}`: {about}"))
}

fn text(error: &Error, kind: ContextKind) -> &str {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text,
        _ => "",
    }
}

fn fixed_hint(error: &Error, command: &str) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::InvalidSubcommand => match text(error, ContextKind::InvalidSubcommand) {
            "stop" | "restart" => Some(
                "a server stops at SIGTERM: `systemctl stop bbq`, or `kill PID` with the pid that `bbq status` shows",
            ),
            "start" | "run" => Some("`bbq serve` starts a server"),
            _ => None,
        },
        ErrorKind::UnknownArgument => {
            let argument = text(error, ContextKind::InvalidArg);
            if command.starts_with("--") {
                return Some("options come behind a command, such as `bbq serve --listen SPEC`");
            }
            if argument.starts_with('-') || !argument.contains([':', '/']) {
                return None;
            }
            match command {
                "serve" => Some("a listener is given by `--listen SPEC`, and a sink by `--sink SPEC`"),
                "status" | "top" | "tail" | "reload" | "sink" => {
                    Some("another server is given by `--admin HOST:PORT`")
                }
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_may_have_been_meant() {
        for (line, says) in [
            (&["bbq", "stop"][..], Some("systemctl stop")),
            (&["bbq", "start"], Some("bbq serve")),
            (&["bbq", "serve", "127.0.0.1:7700"], Some("--listen")),
            (&["bbq", "status", "127.0.0.1:7790"], Some("--admin")),
            (&["bbq", "serve", "--lisen"], None),
            (&["bbq", "sevre"], None),
            (&["bbq", "resend", "archive"], Some("`bbq sink resend`: Send the dead letters")),
            (&["bbq", "pause"], Some("`bbq sink pause`: ")),
            (&["bbq", "skip"], Some("`bbq sink skip`: ")),
            (&["bbq", "rename", "a", "b"], Some("`bbq sink rename`: ")),
            (&["bbq", "explain", "workers"], Some("`bbq config explain`: ")),
            (&["bbq", "cat", "bbq-data"], Some("`bbq spool cat`: ")),
            (&["bbq", "sink", "serve"], None),
            (&["bbq", "--listen", "lines+tcp://127.0.0.1:7701"], Some("behind a command")),
        ] {
            let Err(error) = Arguments::try_parse_from(line) else { panic!("{line:?} is taken") };
            let hint = hint(&error, line[1]);
            assert_eq!(hint.is_some(), says.is_some(), "{line:?}: {hint:?}");
            let hint = hint.unwrap_or_default();
            assert!(hint.contains(says.unwrap_or_default()), "{line:?}: {hint}");
        }
    }
}
