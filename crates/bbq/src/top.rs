//! `bbq top`: the status of a server in a terminal, again and again. It shows what the page of the admin shows, from the same answer.

mod findings_view;
mod first;
mod frame;
mod keys;
mod latency;
mod layout;
mod live;
mod look;
mod model;
mod number;
mod pane;
mod pane_view;
mod screen;
mod snapshot;
mod tables;
mod terminal;
mod text;
mod view;

use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use bbq_server::config::Secret;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::arguments::TopArguments;
use crate::outcome::{Outcome, complain, misuse};
use crate::question::{ANSWER_TIMEOUT, ask};
use crate::safe_text::safe_json;
use crate::{signals, token};
use live::AWAY_INTERVAL_MIN;
use model::Model;
use screen::Screen;
use snapshot::Snapshot;

pub(crate) fn run(arguments: &TopArguments) -> anyhow::Result<Outcome> {
    let is_live = !arguments.once && !arguments.json;
    if is_live && !io::stdout().is_terminal() {
        return Err(misuse(anyhow!(
            "standard output is not a terminal: use --once for one frame as text, or --json for a line at each interval"
        )));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (admin, token) =
        (arguments.server.admin, token::read(arguments.server.token_file.as_deref()).map_err(misuse)?);
    let token = token.as_ref();
    let interval = Duration::from_secs_f64(arguments.interval);
    let mut signal = signals::first_of(&[SIGINT, SIGTERM, SIGHUP])?;
    runtime.block_on(async {
        let first = async {
            match (arguments.json, arguments.once) {
                (true, is_once) => print_json(admin, token, interval, is_once).await.map(|()| None),
                (false, true) => print_frame(admin, token, interval).await.map(|()| None),
                (false, false) => Snapshot::ask(admin, token, || tell_slow(admin)).await.map(Some),
            }
        };
        let first = tokio::select! {
            biased;
            number = &mut signal => return Ok(Outcome::Signal(number.unwrap_or_default())),
            first = first => first?,
        };
        let Some(first) = first else { return Ok(Outcome::Done) };
        let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let screen = Screen::new(arguments.interval, has_colours, true);
        live::run(admin, token, first, screen, signal).await
    })
}

fn tell_slow(admin: SocketAddr) {
    let _closed = writeln!(
        io::stderr(),
        "bbq: {admin} is slow to answer; waiting for up to {} s",
        ANSWER_TIMEOUT.as_secs()
    );
}

/// One frame, with the rates of one interval.
async fn print_frame(admin: SocketAddr, token: Option<&Secret>, interval: Duration) -> anyhow::Result<()> {
    let before = Snapshot::ask(admin, token, || tell_slow(admin)).await?;
    tokio::time::sleep(interval).await;
    let now = Snapshot::ask(admin, token, || tell_slow(admin)).await?;
    let model = Model::new(admin, Some(&before), &now);
    let mut screen = Screen::new(interval.as_secs_f64(), false, false);
    let mut text = Vec::new();
    frame::write(&model, &mut screen, frame::columns(), &mut text)?;
    Ok(io::stdout().lock().write_all(&text)?)
}

/// The answers themselves. A server that goes away is waited for.
async fn print_json(
    admin: SocketAddr,
    token: Option<&Secret>,
    interval: Duration,
    is_once: bool,
) -> anyhow::Result<()> {
    let mut is_known = false;
    let mut is_away = false;
    loop {
        let asked = Instant::now();
        let pause = match ask(admin, token, || tell_slow(admin)).await {
            Ok(answer) => {
                let mut out = io::stdout().lock();
                out.write_all(&safe_json(&answer))?;
                out.write_all(b"\n")?;
                out.flush()?;
                (is_known, is_away) = (true, false);
                interval
            }
            Err(error) if !is_known => return Err(error),
            Err(error) => {
                if !std::mem::replace(&mut is_away, true) {
                    complain(&error.context("no answer; trying again"));
                }
                interval.max(AWAY_INTERVAL_MIN)
            }
        };
        if is_once {
            return Ok(());
        }
        tokio::time::sleep(pause.saturating_sub(asked.elapsed())).await;
    }
}
