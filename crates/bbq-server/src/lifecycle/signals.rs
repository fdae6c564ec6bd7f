//! Catches the signals that the server handles; `control` decides what each of them does.
//!
//! They are caught before anything is opened. A signal that comes while the server starts is remembered. A request to stop ends
//! the start at its next step, or, once workers run, stops the server as soon as it serves. A reload or an upgrade begins when
//! the server serves.
//!
//! Invariant: a SIGINT that this process was started to ignore, as a shell does for its background, stays ignored.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals received since `catch`.
pub struct Signals {
    /// Its event loop delivers the signals, so control runs on it.
    pub(crate) runtime: Runtime,
    pub(crate) received: Received,
    pub(crate) is_stop_asked: Arc<AtomicBool>,
}

/// A stream of signals for each kind. Several pending signals of a kind are one.
pub(crate) struct Received {
    pub(crate) hangup: Signal,
    pub(crate) upgrade: Signal,
    pub(crate) stop: Stop,
}

/// The signals that ask the server to stop.
pub(crate) struct Stop {
    terminate: Signal,
    /// `None` when it is ignored.
    interrupt: Option<Signal>,
}

impl Signals {
    /// Catches signals from here on. To be called before anything else.
    ///
    /// # Errors
    /// The system refuses, mostly for want of descriptors.
    pub fn catch() -> io::Result<Signals> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let is_stop_asked = Arc::new(AtomicBool::new(false));
        let interrupts = !is_ignored(SIGINT);
        for number in [Some(SIGTERM), interrupts.then_some(SIGINT)].into_iter().flatten() {
            signal_hook::flag::register(number, Arc::clone(&is_stop_asked))?;
        }
        let received = {
            let _in_it = runtime.enter();
            let interrupt = interrupts.then(|| signal(SignalKind::interrupt())).transpose()?;
            Received {
                hangup: signal(SignalKind::hangup())?,
                upgrade: signal(SignalKind::user_defined2())?,
                stop: Stop { terminate: signal(SignalKind::terminate())?, interrupt },
            }
        };
        Ok(Signals { runtime, received, is_stop_asked })
    }

    /// Whether a signal has asked the server to stop.
    pub(crate) fn is_stop_asked(&self) -> bool {
        self.is_stop_asked.load(Ordering::Relaxed)
    }
}

impl Stop {
    /// Waits for the next signal, and returns its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        let interrupt = async {
            match &mut self.interrupt {
                Some(interrupt) => interrupt.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = interrupt => "SIGINT",
        }
    }
}

/// Whether this process ignores a signal, as /proc tells: proc_pid_status(5).
fn is_ignored(number: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored >> (number - 1) & 1 == 1)
}
