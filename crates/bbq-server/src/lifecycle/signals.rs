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
use tokio::sync::Notify;

/// The signals received since `catch`.
pub struct Signals {
    /// Its event loop delivers the signals, so control runs on it.
    pub(crate) runtime: Runtime,
    pub(crate) received: Received,
    pub(crate) is_stop_asked: Arc<AtomicBool>,
}

/// A stream of signals for each kind. Several pending signals of a kind are one.
pub(crate) struct Received {
    pub(crate) hangup: SignalStream,
    pub(crate) upgrade: SignalStream,
    pub(crate) stop: Stop,
}

/// The signals of a kind, unless they are left to others.
pub(crate) struct SignalStream(Option<Signal>);

/// What asks the server to stop.
pub(crate) struct Stop {
    terminate: SignalStream,
    /// Left alone when it is ignored.
    interrupt: SignalStream,
    /// The program of the process.
    asked: Arc<Notify>,
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
            Received {
                hangup: SignalStream::of(SignalKind::hangup())?,
                upgrade: SignalStream::of(SignalKind::user_defined2())?,
                stop: Stop::caught(interrupts)?,
            }
        };
        Ok(Signals { runtime, received, is_stop_asked })
    }

    /// For a server in the process of another program, which has most signals for itself. With `stops`, SIGTERM and SIGINT stop
    /// the server.
    pub(crate) fn of_program(stops: bool) -> io::Result<Signals> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let stop = {
            let _in_it = runtime.enter();
            if stops { Stop::caught(!is_ignored(SIGINT))? } else { Stop::default() }
        };
        let received = Received { hangup: SignalStream(None), upgrade: SignalStream(None), stop };
        Ok(Signals { runtime, received, is_stop_asked: Arc::default() })
    }

    /// To ask the server to stop.
    pub(crate) fn asking(&self) -> Arc<Notify> {
        Arc::clone(&self.received.stop.asked)
    }

    /// Whether a signal has asked the server to stop.
    pub(crate) fn is_stop_asked(&self) -> bool {
        self.is_stop_asked.load(Ordering::Relaxed)
    }
}

impl SignalStream {
    /// Catches this kind, on the runtime that is entered.
    fn of(kind: SignalKind) -> io::Result<SignalStream> {
        signal(kind).map(|signal| SignalStream(Some(signal)))
    }

    /// Waits for the next signal; for ever if they are left to others.
    pub(crate) async fn next(&mut self) {
        let received = match &mut self.0 {
            Some(signal) => signal.recv().await,
            None => None,
        };
        if received.is_none() {
            std::future::pending().await
        }
    }
}

impl Default for Stop {
    /// Leaves the signals alone.
    fn default() -> Stop {
        Stop { terminate: SignalStream(None), interrupt: SignalStream(None), asked: Arc::default() }
    }
}

impl Stop {
    fn caught(interrupts: bool) -> io::Result<Stop> {
        let interrupt =
            if interrupts { SignalStream::of(SignalKind::interrupt())? } else { SignalStream(None) };
        Ok(Stop { terminate: SignalStream::of(SignalKind::terminate())?, interrupt, asked: Arc::default() })
    }

    /// Waits until somebody asks, and returns the name of the signal, if it was one.
    pub(crate) async fn next(&mut self) -> Option<&'static str> {
        tokio::select! {
            () = self.terminate.next() => Some("SIGTERM"),
            () = self.interrupt.next() => Some("SIGINT"),
            () = self.asked.notified() => None,
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
