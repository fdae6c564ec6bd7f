//! What workers tell a reader: a queue of outcomes, and an event that the reader can poll beside inotify.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use bbq_read::{Outcome, Settled};
use bbq_wire::StreamId;
use rustix::event::{EventfdFlags, eventfd};

/// Tells a reader what became of its batches, and when to end.
#[derive(Debug)]
pub struct ReaderLink {
    /// At most two for each batch that is in a worker's hands or in a lane's buffers.
    told: Mutex<VecDeque<Told>>,
    /// Readable while there may be an outcome, and for good when the reader is to end.
    event: OwnedFd,
    is_stopping: AtomicBool,
    /// Whether the reader was left behind. Locked while the reader writes its catalog.
    is_left_behind: Mutex<bool>,
}

/// An outcome on its way to the reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) settled: Settled,
    /// The lane of the worker that says so.
    pub(super) lane: u32,
    /// The bytes of the batch if it leaves the worker's hands; 0 for an outcome that comes later.
    pub(super) bytes: usize,
}

impl ReaderLink {
    /// A link without outcomes.
    ///
    /// # Errors
    /// The process has too many open files.
    pub fn new() -> io::Result<Arc<ReaderLink>> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(ReaderLink {
            told: Mutex::default(),
            event,
            is_stopping: AtomicBool::new(false),
            is_left_behind: Mutex::default(),
        }))
    }

    /// Makes the reader end.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.signal();
    }

    /// Leaves a reader behind that does not end: it writes its catalog no more, which belongs to the next start. Returns `false` while the
    /// reader is writing it.
    pub fn leave_behind(&self) -> bool {
        match self.is_left_behind.try_lock() {
            Ok(mut is_left_behind) => *is_left_behind = true,
            Err(TryLockError::Poisoned(poisoned)) => *poisoned.into_inner() = true,
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }

    /// Writes the catalog, unless the reader was left behind.
    pub(super) fn save(&self, save: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let is_left_behind = self.is_left_behind.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_left_behind {
            return Err(io::Error::other(
                "the reader did not end in time, and its catalog belongs to the next start",
            ));
        }
        save()
    }

    /// Whether the reader is to end.
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    pub(super) fn push(&self, told: Told) {
        let mut queue = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(told);
        // Otherwise the reader is signalled already, or is at the queue.
        let is_first = queue.len() == 1;
        drop(queue);
        if is_first {
            self.signal();
        }
    }

    /// The next outcome. Takes the event back when there is none.
    pub(super) fn pop(&self) -> Option<Told> {
        if let Some(told) = self.next() {
            return Some(told);
        }
        let mut count = [0; 8];
        // Without an event there is nothing to take back.
        let _taken = rustix::io::read(&self.event, &mut count);
        if self.is_stopping() {
            // The event that was taken may be that of the stop.
            self.signal();
        }
        // What came before the event was taken has no event any more.
        self.next()
    }

    fn next(&self) -> Option<Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    #[expect(clippy::disallowed_methods, reason = "the kernel reads the number in its own order")]
    fn signal(&self) {
        // It fails only if the counter is full, and then the reader is signalled.
        let _signalled = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

/// A batch of which a reader is told.
#[derive(Clone, Debug)]
pub(crate) struct ToldBatch {
    pub(super) link: Arc<ReaderLink>,
    pub(super) stream: StreamId,
    /// The number of its last record.
    pub(super) to: u64,
    /// Of the worker that has it.
    pub(super) lane: u32,
}

impl ToldBatch {
    /// Tells the outcome of a batch that is in a lane.
    pub(crate) fn tell(&self, outcome: Outcome) {
        self.push(outcome, 0);
    }

    /// Tells the outcome of a batch of so many bytes that leaves the worker's hands.
    pub(super) fn tell_first(&self, outcome: Outcome, bytes: usize) {
        self.push(outcome, bytes);
    }

    fn push(&self, outcome: Outcome, bytes: usize) {
        let settled = Settled { stream: self.stream, to: self.to, outcome };
        self.link.push(Told { settled, lane: self.lane, bytes });
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn is_ready(link: &ReaderLink) -> bool {
        let event = link.event();
        let mut polled = [PollFd::new(&event, PollFlags::IN)];
        poll(&mut polled, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    /// Otherwise a reader that returns late from a file replaces the catalog that the next start has written since.
    #[test]
    fn a_reader_that_was_left_behind_writes_its_catalog_no_more() {
        let link = ReaderLink::new().unwrap();
        let mut saves = 0;
        link.save(&mut || {
            saves += 1;
            assert!(!link.leave_behind(), "a catalog that is being written is waited for");
            Ok(())
        })
        .unwrap();
        assert!(link.leave_behind());
        assert!(link.save(&mut || unreachable!("it was left behind")).is_err());
        assert_eq!(saves, 1);
    }

    #[test]
    fn the_event_is_there_while_there_are_outcomes_and_stays_once_the_reader_is_to_end() {
        let link = ReaderLink::new().unwrap();
        assert!(!is_ready(&link));
        let batch = ToldBatch { link: Arc::clone(&link), stream: StreamId([1; 16]), to: 7, lane: 0 };
        batch.tell_first(Outcome::Appended, 10);
        batch.tell(Outcome::Durable);
        assert!(is_ready(&link));
        assert_eq!(link.pop().map(|told| told.settled.outcome), Some(Outcome::Appended));
        assert!(is_ready(&link));
        assert_eq!(link.pop().map(|told| told.settled.outcome), Some(Outcome::Durable));
        assert!(link.pop().is_none() && !is_ready(&link));
        link.stop();
        assert!(link.pop().is_none() && link.is_stopping() && is_ready(&link));
    }
}
