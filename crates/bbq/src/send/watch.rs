//! Says what `bbq send` waits for when nothing moves, and what became of the messages when a signal ends it.
//!
//! Not here: reading and sending, which may stand still in the meantime.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bbq_client::{Counters, SendError, Sender, ServerProgress};
use indicatif::ProgressBar;
use signal_hook::consts::{SIGINT, SIGTERM};

/// So soon a signal is noticed.
const LOOK: Duration = Duration::from_millis(50);
/// Whoever watches begins to wonder.
const PATIENCE: Duration = Duration::from_secs(1);
/// What has been said is not said again before.
const AGAIN: Duration = Duration::from_secs(30);
/// Something else is not said before: a server that comes and goes would fill the screen.
const OTHER: Duration = Duration::from_secs(5);
/// What is on its way when a signal comes has so long to arrive.
const GRACE: Duration = Duration::from_secs(2);

/// Why the last message found no room, and when that was. Shared with who sends.
#[derive(Clone, Default)]
pub(super) struct Room(Arc<Mutex<Option<(String, Instant)>>>);

impl Room {
    /// A message found none and is tried again.
    pub(super) fn is_missing(&self, error: &SendError) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((error.to_string(), Instant::now()));
    }

    fn missing(&self) -> Option<String> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(_, when)| when.elapsed() < PATIENCE).map(|(why, _)| why.clone())
    }
}

pub(super) struct Watch {
    pub(super) sender: Arc<Sender>,
    pub(super) bar: ProgressBar,
    pub(super) spool: Option<PathBuf>,
    /// The options that name the same servers again.
    pub(super) servers: String,
    pub(super) room: Room,
}

/// How the sending ended.
pub(super) enum End {
    /// By itself.
    Sent(anyhow::Result<()>),
    /// By a signal of this number.
    Signal(u8),
}

impl Watch {
    /// Watches until `sent` says how it ended, or a signal comes.
    pub(super) fn run(&self, sent: &Receiver<anyhow::Result<()>>) -> anyhow::Result<End> {
        let signal = Arc::new(AtomicUsize::new(0));
        let came = Arc::new(AtomicBool::new(false));
        for number in [SIGINT, SIGTERM] {
            // The second one ends the program as if nobody listened.
            signal_hook::flag::register_conditional_default(number, Arc::clone(&came))
                .and_then(|_| signal_hook::flag::register(number, Arc::clone(&came)))
                .and_then(|_| signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize))
                .context("cannot listen for signals")?;
        }
        let mut acknowledged = 0;
        let mut moved = Instant::now();
        let mut said: Option<(String, Instant)> = None;
        loop {
            match sent.recv_timeout(LOOK) {
                Ok(outcome) => return Ok(End::Sent(outcome)),
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the thread that sends ended"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            match signal.load(Ordering::Relaxed) {
                0 => {}
                number => {
                    self.end(number);
                    return Ok(End::Signal(number as u8));
                }
            }
            let counters = self.sender.counters();
            if counters.acknowledged > acknowledged || counters.queued == 0 {
                (acknowledged, moved) = (counters.acknowledged, Instant::now());
            }
            if moved.elapsed() < PATIENCE {
                continue;
            }
            let what = self.waits_for();
            let pause = |last: &str| if last == what { AGAIN } else { OTHER };
            if said.as_ref().is_none_or(|(last, when)| when.elapsed() >= pause(last)) {
                self.bar.suspend(|| eprintln!("bbq: waiting for {what}; {}", self.left(counters.queued)));
                said = Some((what, Instant::now()));
            }
        }
    }

    fn waits_for(&self) -> String {
        let servers = self.sender.servers();
        // Who has everything has no connection when nothing more comes. What was not looked at yet everybody lacks.
        let all_have_all = servers.iter().all(|server| server.missing == 0);
        let lacking = servers.iter().filter(|server| server.missing > 0 || all_have_all);
        let (there, away): (Vec<_>, Vec<_>) = lacking.partition(|server| server.connected);
        let names = |servers: &[&ServerProgress]| {
            let names: Vec<&str> = servers.iter().map(|server| server.server.as_str()).collect();
            names.join(" and ")
        };
        let mut what = if away.is_empty() {
            format!("{} to acknowledge", names(&there))
        } else {
            format!("{} to answer as a bbq server", names(&away))
        };
        if let Some(why) = self.room.missing() {
            what = format!("{what}, and for room: {why}");
        }
        what
    }

    /// So many messages that may still arrive, where they are, and who lacks them where each server is to get them all.
    fn left(&self, left: u64) -> String {
        let mut text = match &self.spool {
            Some(directory) => format!("{left} messages are in the spool {}", directory.display()),
            None => format!("{left} messages are not acknowledged"),
        };
        let servers = self.sender.servers();
        if servers.len() > 1 {
            let lacking = servers.iter().filter(|server| server.missing > 0);
            let lacking: Vec<String> =
                lacking.map(|server| format!("{} lacks {}", server.server, server.missing)).collect();
            if !lacking.is_empty() {
                text = format!("{text} ({})", lacking.join(", "));
            }
        }
        text
    }

    /// Waits a moment for what is on its way, and says what became of everything.
    fn end(&self, signal: usize) {
        let lost = self.sender.counters().dropped.abandoned;
        // What is not acknowledged then is what is told.
        let _late = self.sender.close(GRACE);
        self.bar.finish_and_clear();
        let Counters { accepted, acknowledged, queued, dropped, .. } = self.sender.counters();
        // Without a spool, closing gives up what is left.
        let given_up = if self.spool.is_none() { dropped.abandoned.saturating_sub(lost) } else { 0 };
        let left = queued + given_up;
        let name = if signal == SIGINT as usize { "SIGINT" } else { "SIGTERM" };
        let rest = match &self.spool {
            _ if left == 0 => "none is left".to_owned(),
            Some(directory) => {
                let directory = directory.display();
                let servers = &self.servers;
                format!(
                    "{}, and go with `bbq send --spool {directory}{servers} < /dev/null`",
                    self.left(left)
                )
            }
            None => format!("{} and given up; a server may have some of them", self.left(left)),
        };
        eprintln!(
            "bbq: ended by {name}: {acknowledged} messages acknowledged; {rest}; {accepted} lines were taken from the input, the \
             lines behind them were not"
        );
    }
}
