//! Counters of one socket.
//!
//! They only grow and are relaxed: a reader may see one ahead of another.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Totals of one socket since it was opened. Aligned so that two sockets' counters share no cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    accepted: AtomicU64,
    aborted: AtomicU64,
    starved: AtomicU64,
    rescued: AtomicU64,
    received: AtomicU64,
    truncated: AtomicU64,
}

impl Counters {
    /// Connections accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Relaxed)
    }

    /// Connections that broke before they could be accepted.
    pub fn aborted(&self) -> u64 {
        self.aborted.load(Relaxed)
    }

    /// How often accepting or receiving stopped because descriptors or memory ran out.
    pub fn starved(&self) -> u64 {
        self.starved.load(Relaxed)
    }

    /// Connections or datagrams that other workers took from this socket, because its own worker was stalled or absent, or, with
    /// steering by load, busy.
    pub fn rescued(&self) -> u64 {
        self.rescued.load(Relaxed)
    }

    /// Datagrams received.
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Datagrams that were longer than their buffer and lost their end; part of [`received`](Self::received).
    pub fn truncated(&self) -> u64 {
        self.truncated.load(Relaxed)
    }

    pub(crate) fn add_batch(&self, accepted: usize, aborted: usize) {
        add(&self.accepted, accepted);
        add(&self.aborted, aborted);
    }

    pub(crate) fn add_starved(&self) {
        add(&self.starved, 1);
    }

    pub(crate) fn add_rescued(&self, count: usize) {
        add(&self.rescued, count);
    }

    pub(crate) fn add_datagrams(&self, received: usize, truncated: usize) {
        add(&self.received, received);
        add(&self.truncated, truncated);
    }
}

fn add(counter: &AtomicU64, count: usize) {
    if count > 0 {
        counter.fetch_add(count as u64, Relaxed);
    }
}
