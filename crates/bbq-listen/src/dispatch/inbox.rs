//! Connections that are accepted and that their worker does not have yet: by the acceptor thread (`handoff`), or by the worker itself
//! in a batch (`accept-mutex`), or by another worker that has its hands full (steering by load).

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::dispatch::event_fd::EventFd;
use crate::io::accepted::Accepted;

/// Connections in an inbox, at most: as many as the worker takes in one batch. The others stay in the kernel's queue, where none
/// is lost when the process ends.
pub(crate) const INBOX_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Inbox {
    connections: Mutex<VecDeque<Accepted>>,
    /// Readable while there are connections.
    event_fd: EventFd,
}

impl Inbox {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self { connections: Mutex::new(VecDeque::with_capacity(INBOX_MAX)), event_fd: EventFd::new()? })
    }

    fn locked(&self) -> MutexGuard<'_, VecDeque<Accepted>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn event_fd(&self) -> BorrowedFd<'_> {
        self.event_fd.as_fd()
    }

    pub(crate) fn len(&self) -> usize {
        self.locked().len()
    }

    /// Adds a connection; returns it when the inbox is full.
    pub(crate) fn push(&self, connection: Accepted) -> Result<(), Accepted> {
        let mut connections = self.locked();
        if connections.len() >= INBOX_MAX {
            return Err(connection);
        }
        connections.push_back(connection);
        if connections.len() == 1 {
            self.event_fd.signal();
        }
        Ok(())
    }

    /// Adds a connection, even if the inbox is full: it has been accepted already. Only its own worker does that, which has looked how
    /// much room there is.
    pub(crate) fn push_back(&self, connection: Accepted) {
        let mut connections = self.locked();
        connections.push_back(connection);
        if connections.len() == 1 {
            self.event_fd.signal();
        }
    }

    /// Adds a connection at the front, even if the inbox is full: it has been accepted already. So it can exceed the limit by one
    /// for each of the two threads that add connections.
    pub(crate) fn put_back(&self, connection: Accepted) {
        let mut connections = self.locked();
        connections.push_front(connection);
        self.event_fd.signal();
    }

    /// The newest connection.
    pub(crate) fn pop_newest(&self) -> Option<Accepted> {
        let mut connections = self.locked();
        let newest = connections.pop_back();
        if newest.is_some() && connections.is_empty() {
            self.event_fd.clear();
        }
        newest
    }

    /// The oldest connection.
    pub(crate) fn pop(&self) -> Option<Accepted> {
        let mut connections = self.locked();
        let oldest = connections.pop_front();
        if oldest.is_some() && connections.is_empty() {
            self.event_fd.clear();
        }
        oldest
    }
}
