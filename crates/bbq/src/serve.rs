//! `bbq serve`.

use anyhow::Context;
use bbq_server::config::Environment;
use bbq_server::{ConfigSource, KINDS, Program, Server, Signals, StartError};
use tracing::{info, warn};

use crate::arguments::ServeArguments;
use crate::outcome::{Outcome, complain, misuse};

pub(crate) fn run(arguments: &ServeArguments) -> anyhow::Result<Outcome> {
    // First, so that no signal is missed.
    let signals = Signals::catch().context("cannot receive signals")?;
    // Early, as the program's file may be replaced.
    let program = Program::of_this_process().context("cannot find the path of this program")?;
    let environment = Environment::of_process();
    let source = ConfigSource {
        path: arguments.config.clone().or_else(|| environment.file()),
        environment,
        overrides: arguments.options.0.clone(),
    };
    // The file may be a pipe, so it is read once.
    let in_effect = source.in_effect(&KINDS).map_err(misuse)?;
    for warning in in_effect.warnings_of(&source.environment) {
        warn!("{warning}");
    }
    let config = in_effect.into_config();
    let server = match Server::start(config, source, program, signals) {
        Ok(server) => server,
        Err(stopped @ StartError::Stopped) => {
            info!("{stopped}");
            return Ok(Outcome::Done);
        }
        Err(error) if error.is_usage() => return Err(misuse(error)),
        // Reported here, as main takes an error with a broken pipe for success.
        Err(error) => {
            complain(&error.into());
            return Ok(Outcome::Failed);
        }
    };
    Ok(if server.wait() { Outcome::Done } else { Outcome::Failed })
}
