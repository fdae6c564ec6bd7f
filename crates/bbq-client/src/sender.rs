//! The handle that an application has.

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

/// Threads whose work is done end in this; others are not waited for.
const END_WAIT: Duration = Duration::from_millis(100);

/// Sends records as one stream, from any number of threads. Dropping it waits for what is not acknowledged, at most as long as
/// [`crate::SenderBuilder::close_timeout`] says.
///
/// It belongs to the process that has started it. In a forked child its methods return [`SendError::Forked`] as soon as they
/// notice, and never wait for who is in the parent; dropping it does nothing. `send` looks at the process only where it leaves its
/// thread's block, so some records may be taken in the child before, and are lost.
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

    /// Takes a record: copies it, and returns. Records of one thread keep their order.
    ///
    /// With one over 1 MiB it waits until a server has said what it takes, as long as [`crate::SenderBuilder::on_full`] allows.
    ///
    /// # Errors
    /// [`SendError::Full`], [`SendError::SpoolFull`], [`SendError::MessageTooLarge`] and [`SendError::Spool`] for this record only,
    /// which is counted as dropped; any other is the end of the sender.
    #[inline]
    pub fn send(&self, record: &[u8]) -> Result<(), SendError> {
        self.shared.intake.push(&self.shared.queue, record)
    }

    /// Takes a record if that needs no waiting, whatever [`crate::SenderBuilder::on_full`] says. One that is refused is not counted as
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

    /// Takes records until one is refused. Answers how many were taken: all, or those before the error.
    ///
    /// # Errors
    /// As [`Sender::send`], in the second part of the answer.
    pub fn send_all<'a>(&self, records: impl Iterator<Item = &'a [u8]>) -> (u64, Result<(), SendError>) {
        self.shared.intake.push_all(&self.shared.queue, records)
    }

    /// Waits until everything taken before is acknowledged.
    ///
    /// # Errors
    /// [`SendError::Timeout`], or what ended the sender.
    pub fn flush(&self, timeout: Duration) -> Result<(), SendError> {
        if !self.shared.intake.is_own_process() {
            return Err(SendError::Forked);
        }
        self.shared.intake.collect(&self.shared.queue);
        self.shared.queue.wait_acknowledged(timeout)
    }

    /// Takes nothing any more, waits until everything is acknowledged, and ends. What is not acknowledged in time is counted as
    /// abandoned, or stays in the spool for the next start. Closing again changes nothing.
    ///
    /// # Errors
    /// [`SendError::Timeout`], or what ended the sender before.
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
        // Those that wait for a name, for a server's answer, or for a server that stands still end by themselves, or with the process.
        self.shared.ended.wait(self.shared.destinations.len(), END_WAIT.min(timeout));
        let threads = std::mem::take(&mut *self.threads());
        for thread in threads.into_iter().filter(JoinHandle::is_finished) {
            // A panic in it was printed; there is nothing left to do about it.
            let _ended = thread.join();
        }
        waited.map(|()| self.counters())
    }

    /// What it has done so far. Nothing in a forked child.
    #[must_use]
    pub fn counters(&self) -> Counters {
        if !self.shared.intake.is_own_process() {
            return Counters::default();
        }
        self.shared.counters()
    }

    /// How far each server is; with [`Delivery::Any`](crate::Delivery::Any) all of them are one. None in a forked child.
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

    /// Number of the last record taken, over all lives of the spool: a program that was killed goes on behind it. 0 in a
    /// forked child.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        if !self.shared.intake.is_own_process() {
            return 0;
        }
        self.shared.intake.collect(&self.shared.queue);
        self.shared.queue.next_sequence() - 1
    }

    /// The set reconnect parameters; the present values are in [`Sender::servers`].
    #[must_use]
    pub fn reconnect(&self) -> Reconnect {
        if !self.shared.intake.is_own_process() {
            return self.shared.options.reconnect;
        }
        self.shared.destinations.first().map(|destination| destination.reconnect().set()).unwrap_or_default()
    }

    /// Sets other reconnect parameters. Nothing happens in a forked child.
    ///
    /// # Errors
    /// Parameters that contradict each other; then nothing changes.
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
        // What could not be delivered was counted; a program that wants to know asks `close`.
        let _outcome = self.close(self.shared.options.close_timeout);
    }
}
