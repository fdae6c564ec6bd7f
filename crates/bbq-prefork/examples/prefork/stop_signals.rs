//! SIGTERM and SIGINT.

use std::io;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The two, from when it is made.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub(crate) fn new(runtime: &Runtime) -> io::Result<Self> {
        let _context = runtime.enter();
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for either.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
