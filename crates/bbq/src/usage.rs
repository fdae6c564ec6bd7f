//! Reads the command line, and says what may have been meant by what it does not understand.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

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

fn hint(error: &Error, command: &str) -> Option<&'static str> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => match text(ContextKind::InvalidSubcommand) {
            "stop" | "restart" => Some(
                "a server stops at SIGTERM: `systemctl stop bbq`, or `kill PID` with the pid that `bbq status` shows",
            ),
            "start" | "run" => Some("`bbq serve` starts a server"),
            _ => None,
        },
        ErrorKind::UnknownArgument => {
            let argument = text(ContextKind::InvalidArg);
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
            (&["bbq", "--listen", "lines+tcp://127.0.0.1:7701"], Some("behind a command")),
        ] {
            let Err(error) = Arguments::try_parse_from(line) else { panic!("{line:?} is taken") };
            let hint = hint(&error, line[1]);
            assert_eq!(hint.is_some(), says.is_some(), "{line:?}: {hint:?}");
            assert!(hint.is_none_or(|hint| hint.contains(says.unwrap_or_default())), "{line:?}: {hint:?}");
        }
    }
}
