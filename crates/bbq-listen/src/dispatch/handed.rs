//! Datagrams that came to one worker and belong to another, in the other's inbox: those of senders that were in conversation before
//! the group grew.
//!
//! Invariant: a datagram is in one inbox, or with a worker.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::PeerAddress;
use crate::dispatch::event_fd::EventFd;

/// Datagrams in an inbox, and their bytes: about what a receive buffer of the default size takes. Who finds it full serves the datagram.
const HANDED_MAX: usize = 4096;
const HANDED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A datagram on its way to another worker.
#[derive(Debug)]
pub(crate) struct Handed {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) peer: PeerAddress,
    pub(crate) truncated: bool,
    pub(crate) local: Option<IpAddr>,
}

#[derive(Debug)]
pub(crate) struct HandedInbox {
    waiting: Mutex<Waiting>,
    /// Readable while there are datagrams.
    event_fd: EventFd,
}

#[derive(Debug, Default)]
struct Waiting {
    datagrams: VecDeque<Handed>,
    /// The sum of the lengths of `datagrams`.
    bytes: usize,
}

impl HandedInbox {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self { waiting: Mutex::default(), event_fd: EventFd::new()? })
    }

    fn locked(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn event_fd(&self) -> BorrowedFd<'_> {
        self.event_fd.as_fd()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.locked().datagrams.is_empty()
    }

    /// Adds a datagram, or returns it when the inbox is full or its worker is not able. That is asked under the lock: a worker that
    /// leaves first says so, and then empties its inbox.
    pub(crate) fn push(&self, datagram: Handed, is_able: impl FnOnce() -> bool) -> Result<(), Handed> {
        let mut waiting = self.locked();
        let bytes = waiting.bytes + datagram.bytes.len();
        if waiting.datagrams.len() >= HANDED_MAX || bytes > HANDED_BYTES_MAX || !is_able() {
            return Err(datagram);
        }
        waiting.bytes = bytes;
        waiting.datagrams.push_back(datagram);
        if waiting.datagrams.len() == 1 {
            self.event_fd.signal();
        }
        Ok(())
    }

    /// Puts a datagram back that no other worker takes.
    pub(crate) fn put_back(&self, datagram: Handed) {
        let mut waiting = self.locked();
        waiting.bytes += datagram.bytes.len();
        waiting.datagrams.push_front(datagram);
        self.event_fd.signal();
    }

    /// All datagrams.
    pub(crate) fn drain(&self) -> VecDeque<Handed> {
        let mut waiting = self.locked();
        self.event_fd.clear();
        std::mem::take(&mut *waiting).datagrams
    }

    /// The oldest datagram.
    pub(crate) fn pop(&self) -> Option<Handed> {
        let mut waiting = self.locked();
        let oldest = waiting.datagrams.pop_front()?;
        waiting.bytes -= oldest.bytes.len();
        if waiting.datagrams.is_empty() {
            self.event_fd.clear();
        }
        Some(oldest)
    }
}
