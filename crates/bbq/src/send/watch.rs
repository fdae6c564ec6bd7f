//! Reports what `bbq send` waits for if there is no progress, and what became of the messages when a signal ends it. Reading and
//! sending run on another thread, as they may block.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bbq_client::{Counters, SendError, Sender, ServerProgress};
use indicatif::ProgressBar;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::words::{are, messages};

/// How soon a signal is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// After this time without an acknowledgement the reason is printed.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause before the same reason is printed again.
const SAME_REASON_PAUSE: Duration = Duration::from_secs(30);
/// Pause before another reason is printed, so that a server that comes and goes does not fill the screen.
const OTHER_REASON_PAUSE: Duration = Duration::from_secs(5);
/// After a signal, wait this long for acknowledgements.
const GRACE: Duration = Duration::from_secs(2);

/// Why a message found no room last, and when. Shared with the sending thread.
#[derive(Clone, Default)]
pub(super) struct NoRoom(Arc<Mutex<Option<(String, Instant)>>>);

impl NoRoom {
    pub(super) fn set(&self, error: &SendError) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((error.to_string(), Instant::now()));
    }

    fn recent_reason(&self) -> Option<String> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(_, when)| when.elapsed() < PATIENCE).map(|(why, _)| why.clone())
    }
}

pub(super) struct Watch {
    pub(super) sender: Arc<Sender>,
    pub(super) bar: ProgressBar,
    pub(super) spool: Option<PathBuf>,
    /// The options that name the same servers.
    pub(super) servers: String,
    pub(super) no_room: NoRoom,
    /// The longest time without an acknowledgement while messages wait.
    pub(super) timeout: Option<Duration>,
}

pub(super) enum End {
    /// Sending has ended with this outcome.
    Sent(anyhow::Result<()>),
    /// A signal with this number came.
    Signal(u8),
    /// Nothing was acknowledged for too long.
    Late,
}

impl Watch {
    /// Watches until `sent` has the outcome, or a signal comes.
    pub(super) fn run(&self, sent: &Receiver<anyhow::Result<()>>) -> anyhow::Result<End> {
        let signal = Arc::new(AtomicUsize::new(0));
        let received = Arc::new(AtomicBool::new(false));
        for number in [SIGINT, SIGTERM] {
            // A second signal has its default action, and so ends the program.
            signal_hook::flag::register_conditional_default(number, Arc::clone(&received))
                .and_then(|_| signal_hook::flag::register(number, Arc::clone(&received)))
                .and_then(|_| signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize))
                .context("cannot listen for signals")?;
        }
        let mut acknowledged = 0;
        let mut progress_at = Instant::now();
        let mut printed: Option<(String, Instant)> = None;
        loop {
            match sent.recv_timeout(POLL_INTERVAL) {
                Ok(outcome) => return Ok(End::Sent(outcome)),
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the thread that sends ended"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            match signal.load(Ordering::Relaxed) {
                0 => {}
                number => {
                    self.end(if number == SIGINT as usize { "SIGINT" } else { "SIGTERM" }, GRACE);
                    return Ok(End::Signal(number as u8));
                }
            }
            let counters = self.sender.counters();
            if counters.acknowledged > acknowledged || counters.queued == 0 {
                (acknowledged, progress_at) = (counters.acknowledged, Instant::now());
            }
            if self.timeout.is_some_and(|timeout| progress_at.elapsed() >= timeout) {
                self.bar.suspend(|| eprintln!("bbq: waited for {}", self.waits_for()));
                self.end("--timeout", Duration::ZERO);
                return Ok(End::Late);
            }
            if progress_at.elapsed() < PATIENCE {
                continue;
            }
            let what = self.waits_for();
            let pause = |last: &str| if last == what { SAME_REASON_PAUSE } else { OTHER_REASON_PAUSE };
            if printed.as_ref().is_none_or(|(last, when)| when.elapsed() >= pause(last)) {
                self.bar.suspend(|| eprintln!("bbq: waiting for {what}; {}", self.left(counters.queued)));
                printed = Some((what, Instant::now()));
            }
        }
    }

    fn waits_for(&self) -> String {
        let servers = self.sender.servers();
        // A server that has everything may be disconnected. Records that are not queued yet count for no server.
        let all_have_all = servers.iter().all(|server| server.missing == 0);
        let lacking = servers.iter().filter(|server| server.missing > 0 || all_have_all);
        let (up, down): (Vec<_>, Vec<_>) = lacking.partition(|server| server.connected);
        let names = |servers: &[&ServerProgress]| {
            let names: Vec<&str> = servers.iter().map(|server| server.server.as_str()).collect();
            names.join(" and ")
        };
        let mut what = if down.is_empty() {
            format!("{} to acknowledge", names(&up))
        } else {
            format!("{} to answer as a bbq server", names(&down))
        };
        if let Some(why) = self.no_room.recent_reason() {
            what = format!("{what}, and for room: {why}");
        }
        what
    }

    /// How many messages are not acknowledged, where they are, and, if there are several servers, how many each lacks.
    fn left(&self, left: u64) -> String {
        let mut text = match &self.spool {
            Some(directory) => format!("{} in the spool {}", are(left), directory.display()),
            None => format!("{} not acknowledged", are(left)),
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

    /// Waits a moment for acknowledgements, and reports what became of the messages.
    fn end(&self, cause: &str, grace: Duration) {
        let lost = self.sender.counters().dropped.abandoned;
        let why = match self.sender.close(grace) {
            Err(SendError::Timeout { last_problem: Some(problem), .. }) => format!("; {problem}"),
            // What is left is told below.
            Ok(_) | Err(_) => String::new(),
        };
        self.bar.finish_and_clear();
        let Counters { accepted, acknowledged, queued, dropped, .. } = self.sender.counters();
        // Without a spool, closing gives up the messages that are left.
        let given_up = if self.spool.is_none() { dropped.abandoned.saturating_sub(lost) } else { 0 };
        let left = queued + given_up;
        let rest = match &self.spool {
            _ if left == 0 => "none is left".to_owned(),
            Some(directory) => {
                let directory = directory.display();
                let servers = &self.servers;
                format!(
                    "{}; send them with `bbq send --spool {directory}{servers} < /dev/null`",
                    self.left(left)
                )
            }
            None => format!("{} and given up; a server may have some of them", self.left(left)),
        };
        let (acknowledged, lines) =
            (messages(acknowledged), if accepted == 1 { "line was" } else { "lines were" });
        eprintln!(
            "bbq: ended by {cause}: {acknowledged} acknowledged; {rest}; {accepted} {lines} taken from the input{why}"
        );
    }
}
