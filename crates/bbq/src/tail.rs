//! `bbq tail`: shows messages while they come. The server chooses and samples them; this prints.

mod line;
mod stream;

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::arguments::TailArguments;
use crate::outcome::{Outcome, complain, misuse};
use crate::{question, signals, token};
use line::Printer;
use stream::{Ended, Stream};

/// Pause before a server that went away is asked again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &TailArguments) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let token = token::read(arguments.server.token_file.as_deref()).map_err(misuse)?;
    let signal = signals::first_of(&[SIGINT, SIGTERM])?;
    runtime.block_on(async {
        tokio::select! {
            // First: what came before the signal is printed as a whole line.
            biased;
            signal = signal => Ok(Outcome::Signal(signal.unwrap_or_default())),
            followed = follow(arguments, token.as_ref()) => followed.map(|()| Outcome::Done),
        }
    })
}

/// Follows until the output is closed. A server that ends is waited for: it may be restarted, or upgraded.
async fn follow(arguments: &TailArguments, token: Option<&bbq_server::config::Secret>) -> anyhow::Result<()> {
    let out = io::stdout();
    let has_colours = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let printer = Printer::new(arguments.json, has_colours);
    let mut from = arguments.from.as_str();
    let mut is_known = false;
    loop {
        let mut stream = match Stream::open(arguments, from, token).await {
            Ok(stream) => stream,
            Err(Ended::Refused(error)) => return Err(error),
            Err(Ended::Away(error)) if !is_known => return Err(error),
            Err(Ended::Away(_)) => {
                tokio::time::sleep(RETRY_INTERVAL).await;
                continue;
            }
        };
        if !is_known {
            warn_of_listener(arguments, token).await;
        }
        is_known = true;
        while let Some(line) = stream.next_line().await {
            if let Some(warning) = printer.print(&line, &mut out.lock())? {
                let _closed = writeln!(io::stderr(), "bbq: {warning}");
            }
        }
        // What came before is not shown again.
        from = "now";
        complain(&anyhow::anyhow!("{} ended the connection; trying again", arguments.server.admin));
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// A name that no listener has may be that of an earlier one, or of another server that passes messages on; or it is mistyped.
async fn warn_of_listener(arguments: &TailArguments, token: Option<&bbq_server::config::Secret>) {
    let Some(wanted) = &arguments.listener else { return };
    let admin = arguments.server.admin;
    let answer = question::ask(admin, token, || {}).await;
    // The tail itself tells what is wrong with the server.
    let Ok(status) = answer.and_then(|answer| question::status_in(admin, &answer)) else { return };
    let names: Vec<&str> = status.listeners.iter().map(|listener| listener.name.as_str()).collect();
    if !names.contains(&wanted.as_str()) {
        let names = names.join(", ");
        complain(&anyhow::anyhow!(
            "no listener of this server is called {wanted:?}; it has {names}. Only messages of an earlier listener, or of \
             another server that passes messages on, can have that name"
        ));
    }
}
