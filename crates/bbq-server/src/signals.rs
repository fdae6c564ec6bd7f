//! The signals that the server answers to; what each means is `control`'s.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Received from when this is made on: before, they end the process.
pub(crate) struct Signals {
    pub(crate) terminate: Signal,
    pub(crate) interrupt: Signal,
    pub(crate) hangup: Signal,
    pub(crate) upgrade: Signal,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }

    /// The name of the next one that asks for an end.
    pub(crate) async fn next_stop(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    }
}
