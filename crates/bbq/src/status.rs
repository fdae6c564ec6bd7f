//! `bbq status`: asks the admin, once or until the server is ready.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use bbq_server::config::Secret;
use bbq_server::status::Status;
use hyper::body::Bytes;
use tokio::time::{sleep, timeout};

use crate::arguments::StatusArguments;
use crate::outcome::{Outcome, misuse};
use crate::question::{self, ANSWER_TIMEOUT, ask};
use crate::safe_text::safe_json;
use crate::status_table;
use crate::status_watch;
use crate::token;

/// The pause before the next request is as long as the last request took, at least this...
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// ...and at most this. If another program has the address, each request is work for it, and perhaps a message.
const RETRY_INTERVAL_MAX: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &StatusArguments) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let admin = arguments.server.admin;
    let token = token::read(arguments.server.token_file.as_deref()).map_err(misuse)?;
    let token = token.as_ref();
    if let Some(seconds) = arguments.watch {
        return status_watch::run(&runtime, arguments, seconds, token);
    }
    let answer = match arguments.wait {
        None => runtime.block_on(ask(admin, token, || {
            eprintln!("bbq: {admin} is slow to answer; waiting for up to {} s", ANSWER_TIMEOUT.as_secs());
        }))?,
        Some(seconds) if seconds.is_finite() && (0.0..=1e9).contains(&seconds) => {
            let patience = Duration::from_secs_f64(seconds);
            let mut last = None;
            let asked =
                runtime.block_on(async { timeout(patience, ask_until_ready(admin, token, &mut last)).await });
            match asked {
                Ok(answer) => answer,
                Err(_) => {
                    let last = last.unwrap_or_else(|| "there was no answer".to_owned());
                    bail!("no server is ready at {admin} after {seconds} s: {last}");
                }
            }
        }
        Some(seconds) => {
            return Err(misuse(anyhow!("--wait {seconds}: use a number of seconds, 0 or more")));
        }
    };
    let mut out = std::io::stdout().lock();
    if arguments.json {
        out.write_all(&safe_json(&answer))?;
        writeln!(out)?;
    } else {
        let status = question::status_in(admin, &answer)?;
        status_table::write(&status, arguments.verbose, &mut out)?;
    }
    Ok(Outcome::Done)
}

/// Sets `last` to why the server was not ready.
async fn ask_until_ready(admin: SocketAddr, token: Option<&Secret>, last: &mut Option<String>) -> Bytes {
    loop {
        let asked = Instant::now();
        match ask(admin, token, || {}).await {
            Ok(answer) if serde_json::from_slice::<Status>(&answer).is_ok_and(|status| status.ready) => {
                return answer;
            }
            Ok(_) => *last = Some("the server says that it is not ready".to_owned()),
            Err(error) => *last = Some(format!("{error:#}")),
        }
        sleep(asked.elapsed().clamp(RETRY_INTERVAL, RETRY_INTERVAL_MAX)).await;
    }
}
