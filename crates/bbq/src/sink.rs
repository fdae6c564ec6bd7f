//! `bbq sink`: shows the sinks of a server, pauses one, lets it go on or skip messages, sends its dead letters again, or renames it.

use std::io::{self, Write};

use anyhow::bail;
use bbq_server::status::{SinkStatus, Status};
use form_urlencoded::Serializer;

use crate::arguments::{AdminArguments, SinkArguments, SinkCommand, SinkName};
use crate::outcome::{Outcome, misuse};
use crate::question::{ask, ask_to_change, status_in};
use crate::safe_text::safe;
use crate::status_table::{dropped, filtered};
use crate::token;

/// What to do if the server is older than orders.
pub(crate) const OTHERWISE: &str = "upgrade that server first";

pub(crate) fn run(arguments: &SinkArguments) -> anyhow::Result<Outcome> {
    match &arguments.command {
        SinkCommand::List(server) => list(server),
        SinkCommand::Pause(sink) => change(sink, "pause", None),
        SinkCommand::Resume(sink) => change(sink, "resume", None),
        SinkCommand::Resend(sink) => change(sink, "resend", None),
        SinkCommand::Skip(skip) => {
            change(&skip.sink, "skip", skip.before.as_deref().map(|before| ("before", before)))
        }
        SinkCommand::Rename(rename) => change(&rename.sink, "rename", Some(("to", &rename.to))),
    }
}

fn list(server: &AdminArguments) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let token = token::read(server.token_file.as_deref()).map_err(misuse)?;
    let answer = runtime.block_on(ask(server.admin, token.as_ref(), || {}))?;
    write_list(&status_in(server.admin, &answer)?, &mut io::stdout().lock())?;
    Ok(Outcome::Done)
}

fn write_list(status: &Status, out: &mut dyn Write) -> io::Result<()> {
    for sink in &status.sinks {
        writeln!(out, "{}", sink.name)?;
        let lag = if sink.queued == 0 { String::new() } else { format!(", lag {:.1} s", sink.lag_seconds) };
        let (delivered, dropped) = (sink.delivered, dropped(&sink.dropped));
        writeln!(out, "    {}", state(sink))?;
        let filtered = filtered(sink.filtered);
        writeln!(out, "    delivered {delivered}, queued {}{lag}, dropped {dropped}{filtered}", sink.queued)?;
    }
    Ok(())
}

fn state(sink: &SinkStatus) -> String {
    match sink.problem() {
        _ if sink.paused => "paused".to_owned(),
        Some(problem) => format!("cannot deliver: {}", safe(problem, false)),
        None => "delivers".to_owned(),
    }
}

fn change(sink: &SinkName, action: &str, more: Option<(&str, &str)>) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = &sink.server;
    let token = token::read(server.token_file.as_deref()).map_err(misuse)?;
    let path = path(&sink.name, action, more);
    match runtime.block_on(ask_to_change(server.admin, token.as_ref(), &path, OTHERWISE))? {
        Ok(done) => {
            writeln!(io::stdout(), "{}", safe(&done, false))?;
            Ok(Outcome::Done)
        }
        Err(why) => bail!("the server refused: {}", safe(&why, false)),
    }
}

/// Where the admin is told to do something with a sink.
pub(crate) fn path(name: &str, action: &str, more: Option<(&str, &str)>) -> String {
    let mut query = Serializer::new(String::new());
    query.append_pair("name", name);
    if let Some((key, value)) = more {
        query.append_pair(key, value);
    }
    format!("/sinks/{action}?{}", query.finish())
}
