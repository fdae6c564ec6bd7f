//! `bbq serve`.

use anyhow::Context;
use bbq_server::{ConfigSource, Program, Server, Signals, StartError};
use tracing::info;

use crate::arguments::ServeArguments;
use crate::outcome::Outcome;

pub(crate) fn run(arguments: &ServeArguments) -> anyhow::Result<Outcome> {
    // Before anything that one could interrupt.
    let signals = Signals::catch().context("cannot receive signals")?;
    // Asked before anything takes time, in which somebody could replace the file.
    let program = Program::of_this_process().context("cannot tell which program this is")?;
    let source = ConfigSource { path: arguments.config.clone(), overrides: arguments.options.0.clone() };
    let config = match source.load() {
        Ok(config) => config,
        Err(error) => return Ok(Outcome::Misused(error.into())),
    };
    let server = match Server::start(config, source, program, signals) {
        Ok(server) => server,
        Err(stopped @ StartError::Stopped) => {
            info!("{stopped}");
            return Ok(Outcome::Done);
        }
        Err(error) if error.is_usage() => return Ok(Outcome::Misused(error.into())),
        // Said here: a pipe that is broken somewhere in it is no success.
        Err(error) => {
            crate::outcome::complain(&error.into());
            return Ok(Outcome::Failed);
        }
    };
    Ok(if server.wait() { Outcome::Done } else { Outcome::Failed })
}
