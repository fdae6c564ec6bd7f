//! Ctrl-C ends a run in the middle of a sample, so that nothing is left behind and what was measured before is shown.
//!
//! A signal is for the whole program, so loads and waits ask here. When the run is over, they return an error, which ends the
//! sample with its servers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};

static INSTALLED: OnceLock<Interrupt> = OnceLock::new();

/// Which signal came, if any.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Set by SIGINT and SIGTERM from now on; a second one ends the program as if nobody listened.
    pub(crate) fn install() -> anyhow::Result<Interrupt> {
        let interrupt = INSTALLED.get_or_init(Interrupt::default).clone();
        // One for both: whichever comes second ends the program.
        let came = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            let number = signal as usize; // 2 and 15
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&came))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&came)))
                .and_then(|_| signal_hook::flag::register_usize(signal, Arc::clone(&interrupt.0), number))
                .context("cannot listen for signals")?;
        }
        Ok(interrupt)
    }

    /// Its number.
    pub(crate) fn signal(&self) -> Option<u8> {
        u8::try_from(self.0.load(Ordering::Relaxed)).ok().filter(|number| *number > 0)
    }

    /// Behaves as if a signal had arrived.
    #[cfg(test)]
    pub(crate) fn raise(&self) {
        self.0.store(2, Ordering::Relaxed);
    }
}

/// Whether this program is to end.
pub(crate) fn came() -> bool {
    INSTALLED.get().is_some_and(|interrupt| interrupt.signal().is_some())
}

/// An error if this program is to end.
pub(crate) fn check() -> anyhow::Result<()> {
    anyhow::ensure!(!came(), "interrupted");
    Ok(())
}
