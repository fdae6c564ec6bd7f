//! In which slots senders of datagrams were seen lately: those stay where they are when the group grows.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::steering::program::{SLOTS, slot_of};

/// A sender that was silent for longer than two of these may get another worker, as its NAT may have forgotten it, too.
const GENERATION: Duration = Duration::from_secs(30);

const WORDS: usize = SLOTS / 64;

/// A bit for each slot, of this generation and of the one before it.
#[derive(Debug)]
pub(crate) struct RecentSenders {
    bits: [[AtomicU64; WORDS]; 2],
    current: AtomicUsize,
    began: Mutex<Instant>,
}

impl RecentSenders {
    pub(crate) fn new() -> Self {
        Self {
            bits: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            current: AtomicUsize::new(0),
            began: Mutex::new(Instant::now()),
        }
    }

    /// A datagram came. Mostly a look: the bit is set already.
    pub(crate) fn note(&self, sender: SocketAddr) {
        let slot = slot_of(sender);
        let word = &self.bits[self.current.load(Relaxed)][slot / 64];
        let bit = 1 << (slot % 64);
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    pub(crate) fn is_busy(&self, slot: usize) -> bool {
        self.bits.iter().any(|generation| generation[slot / 64].load(Relaxed) & (1 << (slot % 64)) != 0)
    }

    /// Forgets who was silent for long. Ask it now and then.
    pub(crate) fn age(&self) {
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        if began.elapsed() >= GENERATION {
            *began = Instant::now();
            let next = 1 - self.current.load(Relaxed);
            self.bits[next].iter().for_each(|word| word.store(0, Relaxed));
            self.current.store(next, Relaxed);
        }
    }
}
