//! Whether steering is by load, and what pays then: the stall monitor measures it, and the workers look at it for each connection.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::steering::pinned::PinnedProgram;

/// What pays in a group.
#[derive(Debug, Default)]
pub(crate) struct Balance {
    /// Steering is by load.
    on: AtomicBool,
    /// A worker is away from its event loop for long enough.
    lends: AtomicBool,
    /// A connection is work enough.
    gives: AtomicBool,
    /// Connections last, so that it counts how busy a worker was lately, and not only what it does now.
    lasting: AtomicBool,
    /// Which worker is asked next.
    turn: AtomicUsize,
    /// Kept from the first steering by load to the end of the group.
    pinned: OnceLock<Arc<PinnedProgram>>,
}

impl Balance {
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    pub(crate) fn set_on(&self, on: bool) {
        self.on.store(on, Relaxed);
        self.set_benefits(Benefits::default());
    }

    pub(crate) fn lends(&self) -> bool {
        self.lends.load(Relaxed)
    }

    pub(crate) fn gives(&self) -> bool {
        self.gives.load(Relaxed)
    }

    pub(crate) fn lasting(&self) -> bool {
        self.lasting.load(Relaxed)
    }

    /// A number that is another one each time.
    pub(crate) fn next_turn(&self) -> usize {
        self.turn.fetch_add(1, Relaxed)
    }

    /// The program of the kernel's that the group has for itself.
    pub(crate) fn pinned(&self) -> Option<&Arc<PinnedProgram>> {
        self.pinned.get()
    }

    pub(crate) fn set_pinned(&self, pinned: Arc<PinnedProgram>) {
        // Only one is ever set: a group is steered by one thread at a time.
        let _first = self.pinned.set(pinned);
    }

    /// Lets the kernel see how many connections a worker has at hand; `None` while it sleeps.
    pub(crate) fn show_at_hand(&self, worker: usize, at_hand: Option<usize>) {
        if let Some(pinned) = self.pinned.get() {
            pinned.set_at_hand(worker, at_hand);
        }
    }

    pub(crate) fn set_benefits(&self, benefits: Benefits) {
        self.lends.store(benefits.lends, Relaxed);
        self.gives.store(benefits.gives, Relaxed);
        self.lasting.store(benefits.lasting, Relaxed);
    }
}

/// As the stall monitor has measured it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Benefits {
    pub(crate) lends: bool,
    pub(crate) gives: bool,
    pub(crate) lasting: bool,
}
