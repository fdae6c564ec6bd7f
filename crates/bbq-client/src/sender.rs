//! The handle through which an application sends.

use std::sync::mpsc::{Receiver, sync_channel};
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

/// `close` waits at most this long for the sender's threads. A thread that resolves a name or waits for a server that does not answer takes
/// longer, and ends by itself or with the process.
const END_WAIT: Duration = Duration::from_millis(100);

/// Sends records as one stream, from any number of threads. Dropping a sender waits until all records are
/// acknowledged, at most for [`crate::SenderBuilder::close_timeout`].
///
/// A sender belongs to the process that started it. In a forked child its methods return [`SendError::Forked`] and never wait for a
/// thread of the parent; dropping it does nothing. `send` checks the process only where it leaves its thread's block, so the child may
/// take some records before the first error. Those records are lost.
pub struct Sender {
    shared: Arc<Shared>,
    threads: Mutex<Threads>,
}

struct Threads {
    handles: Vec<JoinHandle<()>>,
    /// Disconnected when every thread has ended.
    running: Receiver<()>,
}

impl Sender {
    pub(crate) fn start(options: Options) -> Result<Sender, StartError> {
        // The first call detects the features of the processor, once in a process. A child that is forked meanwhile would wait for ever.
        let _detected = bbq_wire::batch::crc32c(b"bbq");
        let sizes = Sizes::new(options.spool_bytes_max, buffer_bytes(options.batch_bytes) as u64);
        let shared = Arc::new(Shared::open(options, Arc::new(System), sizes)?);
        let (runs, running) = sync_channel(1);
        let threads = Mutex::new(Threads { handles: Vec::new(), running });
        let sender = Sender { shared: Arc::clone(&shared), threads };
        for index in 0..shared.destinations.len() {
            let (shared, runs) = (Arc::clone(&shared), runs.clone());
            let thread = std::thread::Builder::new()
                .name("bbq-sender".to_owned())
                .spawn(move || {
                    thread::run(&shared.destinations[index], &shared);
                    drop(runs);
                })
                .map_err(|error| StartError::System(error.to_string()))?;
            sender.threads.lock().unwrap_or_else(PoisonError::into_inner).handles.push(thread);
        }
        Ok(sender)
    }

    /// `None` in a forked child.
    fn own(&self) -> Option<&Shared> {
        self.shared.intake.is_own_process().then_some(&self.shared)
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

    /// Copies a record into the queue if that needs no waiting, whatever [`crate::SenderBuilder::on_full`] says. A record that is refused is
    /// not counted as dropped: the caller still has it. With [`crate::OnFull::DropOldest`] older records are dropped for it.
    ///
    /// # Errors
    /// As [`Sender::send`]. A record over 1 MiB is [`SendError::MessageTooLarge`] until a server has said how large a message may be.
    #[inline]
    pub fn try_send(&self, record: &[u8]) -> Result<(), SendError> {
        self.shared.intake.offer(&self.shared.queue, record)
    }

    /// As [`Sender::send`], but calls `go_on` every `slice` while it waits for room, with no lock held: for runtimes whose threads must
    /// handle signals. Returns `None` if `go_on` returns `false`: the record was not taken, and is not counted as dropped.
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
        let mut taken = 0;
        for record in records {
            if let Err(error) = self.send(record) {
                return (taken, Err(error));
            }
            taken += 1;
        }
        (taken, Ok(()))
    }

    /// Waits until every record taken before this call is acknowledged.
    ///
    /// # Errors
    /// [`SendError::Timeout`], or the error that ended the sender, even if every record is acknowledged: such a sender takes no more
    /// records. A sender that was closed with every record acknowledged returns `Ok`.
    pub fn flush(&self, timeout: Duration) -> Result<(), SendError> {
        let shared = self.own().ok_or(SendError::Forked)?;
        shared.intake.collect(&shared.queue);
        shared.queue.wait_acknowledged(timeout)?;
        match shared.queue.failure() {
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
        let shared = self.own().ok_or(SendError::Forked)?;
        shared.set_told_unsent();
        self.end(timeout)
    }

    fn end(&self, timeout: Duration) -> Result<Counters, SendError> {
        let shared = self.own().ok_or(SendError::Forked)?;
        shared.close_intake();
        let waited = shared.queue.wait_acknowledged(timeout);
        shared.end();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let _ended = threads.running.recv_timeout(END_WAIT.min(timeout));
        // A panic of a thread was already printed.
        threads.handles.drain(..).filter(JoinHandle::is_finished).for_each(|thread| drop(thread.join()));
        waited.map(|()| shared.counters())
    }

    /// Waits like [`Sender::flush`], for a program that ends and asks for no outcome: if records are not acknowledged in time, a line on
    /// standard error says so, unless there is a handler of notices. Dropping a sender does the same. Returns whether all are
    /// acknowledged.
    pub fn flush_at_exit(&self, timeout: Duration) -> bool {
        self.flush(timeout).map_err(|error| self.shared.tell_unsent(error)).is_ok()
    }

    /// What the sender has done so far. All zeros in a forked child.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.own().map(Shared::counters).unwrap_or_default()
    }

    /// The progress of each server. With [`Delivery::Any`](crate::Delivery::Any) all servers share one entry. Empty in a forked child.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerProgress> {
        let Some(shared) = self.own() else { return Vec::new() };
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
        let Some(shared) = self.own() else { return 0 };
        shared.intake.collect(&shared.queue);
        shared.queue.last_sequence()
    }

    /// The reconnect parameters as they were set; [`Sender::servers`] has the current values.
    #[must_use]
    pub fn reconnect(&self) -> Reconnect {
        let destination = self.own().and_then(|shared| shared.destinations.first());
        destination.map_or(self.shared.options.reconnect, |destination| destination.reconnect().set())
    }

    /// Changes the reconnect parameters. Does nothing in a forked child.
    ///
    /// # Errors
    /// The parameters contradict each other; nothing changes.
    pub fn set_reconnect(&self, reconnect: Reconnect) -> Result<(), ReconnectError> {
        reconnect.check()?;
        if let Some(shared) = self.own() {
            shared.destinations.iter().for_each(|destination| destination.reconnect().change(reconnect));
        }
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
        // A program that wants the outcome calls `close`.
        if let Err(error) = self.end(self.shared.options.close_timeout) {
            self.shared.tell_unsent(error);
        }
    }
}
