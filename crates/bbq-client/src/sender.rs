//! The application's end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use bbq_wire::StreamId;

use crate::connection::{self, Pause};
use crate::queue::Queue;
use crate::{SendError, SenderOptions};

/// How far a sender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Records taken from the application.
    pub taken: u64,
    /// Records acknowledged at the level that was asked for.
    pub acknowledged: u64,
    /// Connections that broke or could not be made.
    pub reconnects: u64,
}

/// What a sender has done in the end.
pub type Summary = Progress;

/// Sends records as one stream. Dropping it without [`Sender::close`] gives up what is not acknowledged.
pub struct Sender {
    queue: Arc<Queue>,
    reconnects: Arc<AtomicU64>,
    pause: Arc<Pause>,
    thread: Option<JoinHandle<()>>,
}

impl Sender {
    /// Starts the thread that connects; returns before it has.
    ///
    /// # Errors
    /// [`SendError::NoServers`], or what the system refuses.
    pub fn start(options: SenderOptions) -> Result<Sender, SendError> {
        if options.servers.is_empty() {
            return Err(SendError::NoServers);
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| SendError::System(error.to_string()))?;
        let queue = Arc::new(Queue::new(options, StreamId(id)));
        let reconnects = Arc::new(AtomicU64::new(0));
        let pause = Arc::new(Pause::default());
        let (sending, counting, pausing) = (Arc::clone(&queue), Arc::clone(&reconnects), Arc::clone(&pause));
        let thread = std::thread::Builder::new()
            .name("bbq-sender".to_owned())
            .spawn(move || connection::keep(&sending, &counting, &pausing))
            .map_err(|error| SendError::System(error.to_string()))?;
        Ok(Sender { queue, reconnects, pause, thread: Some(thread) })
    }

    /// Takes a record. Waits when the queue is full, and with one over 1 MiB until a server has said what it takes.
    ///
    /// # Errors
    /// [`SendError::MessageTooLarge`] for this record only; any other is the end of the sender.
    pub fn send(&self, record: &[u8]) -> Result<(), SendError> {
        self.queue.push(std::iter::once(record)).1
    }

    /// Takes many records at once, which costs less. Answers how many were taken: all, or those before the error.
    ///
    /// # Errors
    /// As [`Sender::send`], in the second part of the answer.
    pub fn send_all<'a>(&self, records: impl Iterator<Item = &'a [u8]>) -> (u64, Result<(), SendError>) {
        self.queue.push(records)
    }

    /// Waits until everything taken is acknowledged.
    ///
    /// # Errors
    /// What ended the sender.
    pub fn flush(&self) -> Result<(), SendError> {
        self.queue.wait_acknowledged()
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let (taken, acknowledged) = self.queue.counts();
        Progress { taken, acknowledged, reconnects: self.reconnects.load(Ordering::Relaxed) }
    }

    /// Waits until everything is acknowledged, and ends.
    ///
    /// # Errors
    /// What ended the sender before.
    pub fn close(mut self) -> Result<Summary, SendError> {
        self.queue.close();
        let waited = self.queue.wait_acknowledged();
        let summary = self.progress();
        self.end();
        waited.map(|()| summary)
    }

    fn end(&mut self) {
        self.queue.close();
        let done = self.queue.is_done();
        self.queue.fail(SendError::Closed);
        self.pause.end();
        // A thread that is given up may be waiting for a server that stands still: it ends with the process at the latest.
        if let Some(thread) = self.thread.take().filter(|_| done) {
            // A panic in it was printed; there is nothing left to do about it.
            let _ended = thread.join();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.end();
    }
}
