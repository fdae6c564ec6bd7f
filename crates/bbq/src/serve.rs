//! `bbq serve`.

use bbq_server::{Config, Overrides, Server};

use crate::Outcome;
use crate::arguments::ServeArguments;

pub(crate) fn run(arguments: &ServeArguments) -> anyhow::Result<Outcome> {
    let overrides = Overrides {
        listen: arguments.listen.clone(),
        sink: arguments.sink.clone(),
        data: arguments.data.clone(),
        workers: arguments.workers,
        distribution: arguments.distribution.clone(),
        admin: arguments.admin.clone(),
    };
    let config = match Config::load(arguments.config.as_deref(), &overrides) {
        Ok(config) => config,
        Err(error) => return Ok(Outcome::Misused(error.into())),
    };
    let server = match Server::start(&config) {
        Ok(server) => server,
        Err(error) if error.is_usage() => return Ok(Outcome::Misused(error.into())),
        Err(error) => return Err(error.into()),
    };
    Ok(if server.wait() { Outcome::Done } else { Outcome::Failed })
}
