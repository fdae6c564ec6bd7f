//! `bbq serve`.

use anyhow::Context;
use bbq_server::{ConfigSource, Overrides, Program, Server};

use crate::Outcome;
use crate::arguments::ServeArguments;

pub(crate) fn run(arguments: &ServeArguments) -> anyhow::Result<Outcome> {
    // Asked before anything takes time, in which somebody could replace the file.
    let program = Program::of_this_process().context("cannot tell which program this is")?;
    let overrides = Overrides {
        listen: arguments.listen.clone(),
        sink: arguments.sink.clone(),
        data: arguments.data.clone(),
        workers: arguments.workers,
        distribution: arguments.distribution.clone(),
        admin: arguments.admin.clone(),
    };
    let source = ConfigSource { path: arguments.config.clone(), overrides };
    let config = match source.load() {
        Ok(config) => config,
        Err(error) => return Ok(Outcome::Misused(error.into())),
    };
    let server = match Server::start(config, source, program) {
        Ok(server) => server,
        Err(error) if error.is_usage() => return Ok(Outcome::Misused(error.into())),
        Err(error) => return Err(error.into()),
    };
    Ok(if server.wait() { Outcome::Done } else { Outcome::Failed })
}
