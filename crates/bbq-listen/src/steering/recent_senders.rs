//! The slots of recent senders of datagrams. They keep their worker when the group grows.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::steering::program::{SLOTS, slot_of};

/// A sender that was silent for two generations may get another worker; a NAT may have forgotten it, too.
const GENERATION: Duration = Duration::from_secs(30);

const WORDS: usize = SLOTS / 64;

/// A bit for each slot, for the current generation and for the last one.
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

    /// Notes the sender of a datagram. Mostly the bit is set, and nothing is written.
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

    /// Forgets senders that were silent for two generations. To be called regularly.
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
