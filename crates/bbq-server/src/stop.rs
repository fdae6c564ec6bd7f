//! How the server ends: first everybody finishes, later everybody gives up.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Phase {
    Running,
    /// Nothing new comes; what is there is finished.
    Draining,
    /// Somebody goes on soon: what was read is committed, and the rest left to them.
    Leaving,
    /// No more patience.
    Over,
}

/// Shared by the control thread, who moves it, and the sinks, who look.
#[derive(Debug)]
pub(crate) struct Stop {
    phase: Mutex<Phase>,
    moved: Condvar,
}

impl Stop {
    pub(crate) fn new() -> Stop {
        Stop { phase: Mutex::new(Phase::Running), moved: Condvar::new() }
    }

    fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.moved.notify_all();
    }

    pub(crate) fn drain(&self) {
        self.enter(Phase::Draining);
    }

    pub(crate) fn leave(&self) {
        self.enter(Phase::Leaving);
    }

    pub(crate) fn give_up(&self) {
        self.enter(Phase::Over);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.phase() >= Phase::Draining
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.phase() == Phase::Leaving
    }

    pub(crate) fn is_over(&self) -> bool {
        self.phase() == Phase::Over
    }

    /// Waits, at the latest until patience is over.
    pub(crate) fn wait_over(&self, timeout: Duration) {
        let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let _unused = self.moved.wait_timeout_while(phase, timeout, |phase| *phase < Phase::Over);
    }
}
