//! The screen that lives: asks the server, reads keys, draws. One thread, so that nothing here is shared.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bbq_server::config::Secret;
use signal_hook::consts::SIGINT;
use tokio::sync::{mpsc, oneshot};

use super::model::Model;
use super::number::duration;
use super::screen::{Action, PARTS, Screen, SinkOrder};
use super::snapshot::Snapshot;
use super::terminal::{Input, Terminal, inputs};
use super::{keys, view};
use crate::outcome::Outcome;
use crate::question::ask_to_change;
use crate::sink::{self, OTHERWISE};

/// A server that is away is not asked more often: another program may have its address.
pub(super) const AWAY_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// How long ago the last answer was is shown to the second.
const AWAY_TICK: Duration = Duration::from_secs(1);

type Asking<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Snapshot>> + 'a>>;
/// A sink is told something. Returns what the server says.
type Telling<'a> = Pin<Box<dyn Future<Output = String> + 'a>>;

/// What the screen shows, and of whom.
struct Live<'a> {
    token: Option<&'a Secret>,
    screen: Screen,
    before: Option<Snapshot>,
    now: Snapshot,
    /// When the request that is under way, or the last one, was sent.
    asked: Instant,
    /// Why the last request failed.
    failure: Option<String>,
    /// The request under way was sent after an order: its answer is shown also while the numbers are held.
    is_after_order: bool,
}

/// Shows the server until a key or a signal ends it. `first` is its first answer.
pub(super) async fn run(
    admin: SocketAddr,
    token: Option<&Secret>,
    first: Snapshot,
    screen: Screen,
    mut signal: oneshot::Receiver<u8>,
) -> anyhow::Result<Outcome> {
    let mut live = Live::new(token, screen, first);
    let mut terminal = Terminal::open()?;
    let mut inputs = inputs()?;
    let mut asking: Option<Asking<'_>> = None;
    let mut telling: Option<Telling<'_>> = None;
    loop {
        let model = Model::new(admin, live.before.as_ref(), &live.now);
        live.screen.away = live.failure.as_ref().map(|why| {
            // Whole seconds: the tick is not exact.
            let since = Duration::from_secs(live.now.at.elapsed().as_secs());
            format!(
                "! no answer since {}: {why}",
                if since.is_zero() { "now".to_owned() } else { duration(since) }
            )
        });
        let mut rows = [0; PARTS];
        terminal
            .draw(|frame| rows = view::draw(&model, &mut live.screen, frame.area(), frame.buffer_mut()))?;
        if asking.is_none() && live.is_due() {
            live.asked = Instant::now();
            asking = Some(Box::pin(Snapshot::ask(admin, live.token, || {})));
        }
        let wake = live.next_wake(asking.is_some());
        tokio::select! {
            number = &mut signal => return Ok(Outcome::Signal(number.unwrap_or_default())),
            input = next(&mut inputs) => match input? {
                None => {}
                Some(key) => {
                    let Some(action) = keys::action_of(key, live.screen.edits_filter) else { continue };
                    match action {
                        Action::Quit => return Ok(Outcome::Done),
                        Action::Interrupt => return Ok(Outcome::Signal(SIGINT as u8)),
                        Action::Suspend => terminal.suspend()?,
                        Action::Redraw => terminal.clear()?,
                        Action::Accept => match live.screen.take_order(&model) {
                            Some(_) if telling.is_some() => {
                                live.screen.notice = Some("the server has not answered the last order".to_owned());
                            }
                            Some(order) => {
                                live.screen.notice = Some(format!("telling the sink {}", order.name));
                                telling = Some(Box::pin(tell(admin, token, order)));
                            }
                            None => live.screen.act(action, &model, &rows),
                        },
                        _ => live.screen.act(action, &model, &rows),
                    }
                }
            },
            answer = result_of(&mut asking) => {
                asking = None;
                live.take(answer);
            }
            said = result_of(&mut telling) => {
                telling = None;
                live.screen.notice = Some(said);
                // What has changed is shown at once. An answer that is under way may be older.
                live.is_after_order = true;
                asking = Some(Box::pin(Snapshot::ask(admin, token, || {})));
            }
            () = tokio::time::sleep(wake) => {}
        }
    }
}

/// A key, or `None` for a new size.
async fn next(
    inputs: &mut mpsc::Receiver<Input>,
) -> anyhow::Result<Option<ratatui::crossterm::event::KeyEvent>> {
    match inputs.recv().await {
        Some(Input::Key(key)) => Ok(Some(key)),
        Some(Input::Resized) => Ok(None),
        Some(Input::Closed(error)) => Err(error).context("the terminal is gone"),
        None => anyhow::bail!("the thread that reads keys has ended"),
    }
}

async fn result_of<T>(running: &mut Option<Pin<Box<dyn Future<Output = T> + '_>>>) -> T {
    match running {
        Some(running) => running.await,
        None => std::future::pending().await,
    }
}

/// Does what `bbq sink pause` and `bbq sink resume` do.
async fn tell(admin: SocketAddr, token: Option<&Secret>, SinkOrder { name, pauses }: SinkOrder) -> String {
    let path = sink::path(&name, if pauses { "pause" } else { "resume" }, None);
    match ask_to_change(admin, token, &path, OTHERWISE).await {
        Ok(Ok(done)) => done,
        Ok(Err(why)) => format!("the server refused: {why}"),
        Err(error) => format!("{error:#}"),
    }
}

impl<'a> Live<'a> {
    fn new(token: Option<&'a Secret>, screen: Screen, now: Snapshot) -> Live<'a> {
        let asked = now.at;
        Live { token, screen, before: None, now, asked, failure: None, is_after_order: false }
    }

    fn interval(&self) -> Duration {
        let interval = Duration::from_secs_f64(self.screen.interval_seconds);
        if self.failure.is_some() { interval.max(AWAY_INTERVAL_MIN) } else { interval }
    }

    fn is_due(&self) -> bool {
        !self.screen.is_paused && self.asked.elapsed() >= self.interval()
    }

    /// How long nothing changes unless something comes.
    fn next_wake(&self, is_asking: bool) -> Duration {
        if self.failure.is_some() || is_asking || self.screen.is_paused {
            return AWAY_TICK;
        }
        self.interval().saturating_sub(self.asked.elapsed())
    }

    fn take(&mut self, answer: anyhow::Result<Snapshot>) {
        let is_after_order = std::mem::take(&mut self.is_after_order);
        // What was asked before the pause is not shown in it.
        if self.screen.is_paused && !(is_after_order && answer.is_ok()) {
            return;
        }
        match answer {
            Ok(snapshot) => {
                self.failure = None;
                self.before = Some(std::mem::replace(&mut self.now, snapshot));
            }
            Err(error) => self.failure = Some(format!("{error:#}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::status;
    use super::*;

    #[test]
    fn held_numbers_change_after_an_order_only() {
        let snapshot = |pid| {
            let mut status = status();
            status.pid = pid;
            Snapshot { at: Instant::now(), status }
        };
        let mut screen = Screen::new(1.0, false, true);
        screen.is_paused = true;
        let mut live = Live::new(None, screen, snapshot(1));
        live.take(Ok(snapshot(2)));
        assert_eq!(live.now.status.pid, 1);
        live.is_after_order = true;
        live.take(Ok(snapshot(3)));
        live.take(Ok(snapshot(4)));
        assert_eq!(live.now.status.pid, 3);
        live.is_after_order = true;
        live.take(Err(anyhow::anyhow!("gone")));
        assert_eq!(live.failure, None);
    }
}
