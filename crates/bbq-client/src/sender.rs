//! The handle through which an application sends.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::delivery::destination::Destination;
use crate::delivery::thread;
use crate::environment::System;
use crate::options::Options;
use crate::queue::block::buffer_bytes;
use crate::shared::Shared;
use crate::spool::Sizes;
use crate::{Counters, Reconnect, ReconnectError, SendError, ServerProgress, StartError};

/// Threads that have finished their work end within this time. `close` does not wait for others.
const END_WAIT: Duration = Duration::from_millis(100);

/// Sends records as one stream, from any number of threads. Dropping a sender waits until all records are
/// acknowledged, at most for [`crate::SenderBuilder::close_timeout`].
///
/// A sender belongs to the process that started it. In a forked child its methods return [`SendError::Forked`] and never wait for a
/// thread of the parent; dropping it does nothing. `send` checks the process only where it leaves its thread's block, so the child may
/// take some records before the first error. Those records are lost.
pub struct Sender {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Sender {
    pub(crate) fn start(options: Options) -> Result<Sender, StartError> {
        // Its first use finds out, once in a process, what the processor can. A fork meanwhile would wait for that for ever.
        let _known = bbq_wire::batch::crc32c(b"bbq");
        let sizes = Sizes::new(options.spool_bytes_max, buffer_bytes(options.batch_bytes) as u64);
        let shared = Arc::new(Shared::open(options, Arc::new(System), sizes)?);
        let sender = Sender { shared: Arc::clone(&shared), threads: Mutex::default() };
        for index in 0..shared.destinations.len() {
            let running = Arc::clone(&shared);
            let thread = std::thread::Builder::new()
                .name("bbq-sender".to_owned())
                .spawn(move || {
                    thread::run(&running.destinations[index], &running);
                    running.ended.add();
                })
                .map_err(|error| StartError::System(error.to_string()))?;
            sender.threads().push(thread);
        }
        Ok(sender)
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies a record into the queue and returns. Records of one thread keep their order.
    ///
    /// A record over 1 MiB waits until a server has said how large a message may be, at most as long as [`crate::SenderBuilder::on_full`] allows.
    ///
    /// # Errors
    /// [`SendError::Full`], [`SendError::SpoolFull`], [`SendError::MessageTooLarge`] and [`SendError::Spool`] concern this record
    /// only, which is counted as dropped. After any other error the sender takes no more records.
    #[inline]
    pub fn send(&self, record: &[u8]) -> Result<(), SendError> {
        self.shared.intake.push(&self.shared.queue, record)
    }

    /// Copies a record into the queue if that needs no waiting, whatever [`crate::SenderBuilder::on_full`] says. One that is refused is not counted as
    /// dropped: the caller still has it, and may offer it again. With [`crate::OnFull::DropOldest`] older records go for it.
    ///
    /// # Errors
    /// As [`Sender::send`]. A record over 1 MiB is [`SendError::MessageTooLarge`] until a server has said what it takes.
    #[inline]
    pub fn try_send(&self, record: &[u8]) -> Result<(), SendError> {
        self.shared.intake.offer(&self.shared.queue, record)
    }

    /// As [`Sender::send`], but while it waits for room it asks `go_on` every `slice` whether to wait on, with nothing locked: for
    /// runtimes whose threads must hear of signals. `None` when `go_on` says no: the record was not taken, and is not counted as
    /// dropped.
    pub fn send_while(
        &self,
        record: &[u8],
        slice: Duration,
        mut go_on: impl FnMut() -> bool,
    ) -> Option<Result<(), SendError>> {
        self.shared.intake.push_while(&self.shared.queue, record, slice, &mut go_on)
    }

    /// Takes records until one is refused. Returns how many were taken: all, or those before the error.
    ///
    /// # Errors
    /// As [`Sender::send`], in the second part of the result.
    pub fn send_all<'a>(&self, records: impl Iterator<Item = &'a [u8]>) -> (u64, Result<(), SendError>) {
        self.shared.intake.push_all(&self.shared.queue, records)
    }

    /// Waits until every record taken before this call is acknowledged.
    ///
    /// # Errors
    /// [`SendError::Timeout`], or the error that ended the sender, even if every record is acknowledged: such a sender takes no more
    /// records. A sender that was closed with every record acknowledged returns `Ok`.
    pub fn flush(&self, timeout: Duration) -> Result<(), SendError> {
        if !self.shared.intake.is_own_process() {
            return Err(SendError::Forked);
        }
        self.shared.intake.collect(&self.shared.queue);
        self.shared.queue.wait_acknowledged(timeout)?;
        match self.shared.queue.failure() {
            None | Some(SendError::Closed) => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Stops taking records, waits until all are acknowledged, and ends the sender. Records that are not acknowledged in time are
    /// counted as abandoned, or stay in the spool for the next start. Closing again changes nothing.
    ///
    /// # Errors
    /// [`SendError::Timeout`], or the error that ended the sender before, unless every record is acknowledged.
    pub fn close(&self, timeout: Duration) -> Result<Counters, SendError> {
        if !self.shared.intake.is_own_process() {
            return Err(SendError::Forked);
        }
        let queue = &self.shared.queue;
        self.shared.intake.close(queue);
        queue.close();
        let waited = queue.wait_acknowledged(timeout);
        queue.end(SendError::Closed, self.shared.spool.is_some());
        if let Some(spool) = &self.shared.spool {
            spool.close(queue.acknowledged_by_all());
        }
        // A thread that waits for a name, or for a server that does not answer, ends by itself or with the process.
        self.shared.ended.wait(self.shared.destinations.len(), END_WAIT.min(timeout));
        let threads = std::mem::take(&mut *self.threads());
        for thread in threads.into_iter().filter(JoinHandle::is_finished) {
            // A panic of the thread was already printed.
            let _ended = thread.join();
        }
        waited.map(|()| self.counters())
    }

    /// What the sender has done so far. All zeros in a forked child.
    #[must_use]
    pub fn counters(&self) -> Counters {
        if !self.shared.intake.is_own_process() {
            return Counters::default();
        }
        self.shared.counters()
    }

    /// The progress of each server. With [`Delivery::Any`](crate::Delivery::Any) all servers share one entry. Empty in a forked child.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerProgress> {
        if !self.shared.intake.is_own_process() {
            return Vec::new();
        }
        let shared = &self.shared;
        let progress = |(index, destination): (usize, &Destination)| {
            let (acknowledged, missing) = shared.queue.account_of(index);
            destination.progress(acknowledged, missing)
        };
        shared.destinations.iter().enumerate().map(progress).collect()
    }

    /// The number of the last record taken. With a spool the numbers continue over restarts, so a program that was killed can go on
    /// behind this record. 0 in a forked child.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        if !self.shared.intake.is_own_process() {
            return 0;
        }
        self.shared.intake.collect(&self.shared.queue);
        self.shared.queue.next_sequence() - 1
    }

    /// The reconnect parameters as they were set; [`Sender::servers`] has the current values.
    #[must_use]
    pub fn reconnect(&self) -> Reconnect {
        if !self.shared.intake.is_own_process() {
            return self.shared.options.reconnect;
        }
        self.shared.destinations.first().map(|destination| destination.reconnect().set()).unwrap_or_default()
    }

    /// Changes the reconnect parameters. Does nothing in a forked child.
    ///
    /// # Errors
    /// The parameters contradict each other; nothing changes.
    pub fn set_reconnect(&self, reconnect: Reconnect) -> Result<(), ReconnectError> {
        reconnect.check()?;
        if !self.shared.intake.is_own_process() {
            return Ok(());
        }
        self.shared.destinations.iter().for_each(|destination| destination.reconnect().change(reconnect));
        Ok(())
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Undelivered records were counted; a program that wants the outcome calls `close`.
        let _outcome = self.close(self.shared.options.close_timeout);
    }
}
