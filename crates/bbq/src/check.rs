//! `bbq check` and `bbq config`: the configuration as it would be used, the default file, the JSON Schema.

use std::io::Write as _;

use anyhow::anyhow;
use bbq_server::config::{Environment, FILE_VARIABLE, default_file, schema};
use bbq_server::{ConfigSource, KINDS, Overrides};
use bbq_spool::ShownBytes;

use crate::arguments::{CheckArguments, ConfigArguments, ConfigCommand};
use crate::check_cases;
use crate::explain;
use crate::obstacles::obstacles;
use crate::outcome::{Outcome, complain, misuse};

pub(crate) fn run(arguments: &CheckArguments) -> anyhow::Result<Outcome> {
    let environment = Environment::of_process();
    let what = what_is_checked(arguments, &environment);
    // The same as `bbq serve` reads with these arguments.
    let source = ConfigSource {
        path: arguments.file.clone().or_else(|| environment.file()),
        environment,
        overrides: Overrides::default(),
    };
    let in_effect = source.in_effect(&KINDS).map_err(misuse)?;
    for warning in in_effect.warnings_of(&source.environment) {
        complain(&anyhow!("{warning}"));
    }
    let config = in_effect.into_config();
    if let Some(cases) = &arguments.test {
        return check_cases::run(&config, cases);
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}. The server would open:")?;
    writeln!(
        out,
        "  data     {} (spool up to {}, segments of {})",
        config.data.display(),
        ShownBytes(config.spool_bytes_max),
        ShownBytes(config.segment_bytes)
    )?;
    writeln!(out, "  workers  {}", config.workers)?;
    match &config.memory.limit {
        Some(limit) => writeln!(
            out,
            "  memory   {} of {} ({}); {} for unfinished batches and messages",
            ShownBytes(config.memory.bytes()),
            ShownBytes(limit.bytes),
            limit.from,
            ShownBytes(config.unfinished_bytes_max)
        )?,
        None => writeln!(out, "  memory   {}", ShownBytes(config.memory.bytes()))?,
    }
    for listener in &config.listen {
        let distribution = config.distribution_of(listener);
        writeln!(out, "  listen   {} (distribution {distribution})", listener.text)?;
    }
    for reader in &config.read {
        writeln!(out, "  read     {}", reader.text)?;
    }
    for sink in &config.sinks {
        writeln!(out, "  sink     {}", sink.text)?;
    }
    match config.admin {
        Some(address) => writeln!(out, "  admin    {address}")?,
        None => writeln!(out, "  admin    off")?,
    }
    if let Some(address) = config.probe {
        writeln!(out, "  probe    {address}")?;
    }
    let obstacles = obstacles(&config);
    if !obstacles.is_empty() {
        writeln!(out, "But a server that this user starts now would have these problems on this machine:")?;
    }
    for obstacle in obstacles {
        writeln!(out, "  {obstacle}")?;
    }
    Ok(Outcome::Done)
}

/// If it is valid, this is said of it.
fn what_is_checked(arguments: &CheckArguments, environment: &Environment) -> String {
    match (&arguments.file, environment.file()) {
        (Some(file), _) => format!("{} is valid", file.display()),
        (None, Some(file)) => format!("{}, the file in {FILE_VARIABLE}, is valid", file.display()),
        (None, None) => {
            format!("No FILE is given, nor {FILE_VARIABLE}: the defaults and the other variables are valid")
        }
    }
}

pub(crate) fn run_config(arguments: &ConfigArguments) -> anyhow::Result<Outcome> {
    let mut out = std::io::stdout().lock();
    match &arguments.command {
        ConfigCommand::Check(arguments) => return run(arguments),
        ConfigCommand::Explain(arguments) => return explain::run(arguments),
        ConfigCommand::Default => write!(out, "{}", default_file())?,
        ConfigCommand::Schema => writeln!(out, "{:#}", schema(&KINDS))?,
    }
    Ok(Outcome::Done)
}
