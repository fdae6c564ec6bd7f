//! The handle that an application has.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bbq_wire::StreamId;
use bbq_wire::session::Welcome;

use crate::block::buffer_bytes;
use crate::intake::Intake;
use crate::outlet::Outlet;
use crate::queue::Queue;
use crate::session::Trouble;
use crate::spool::{Recovered, Spool};
use crate::{
    AdaptiveReconnect, Counters, Delivery, Reconnect, ReconnectError, SendError, SenderBuilder,
    ServerAddress, ServerProgress, StartError,
};

/// Threads whose work is done end in this; others are not waited for.
const END_WAIT: Duration = Duration::from_millis(100);

/// What the handle and the threads share.
pub(crate) struct Shared {
    pub(crate) options: SenderBuilder,
    pub(crate) intake: Intake,
    pub(crate) queue: Queue,
    outlets: Vec<Outlet>,
    spool: Option<Arc<Spool>>,
    recovered: u64,
    /// Of these drops a record was sent.
    reported: AtomicU64,
    /// Threads that have done all they will.
    ended: Ended,
}

/// Counts threads that have ended.
#[derive(Default)]
struct Ended {
    count: Mutex<usize>,
    more: Condvar,
}

impl Ended {
    fn add(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.more.notify_all();
    }

    fn wait(&self, threads: usize, timeout: Duration) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let _waited = self.more.wait_timeout_while(count, timeout, |count| *count < threads);
    }
}

/// Sends records as one stream, from any number of threads. Dropping it waits for what is not acknowledged, at most as long as
/// [`SenderBuilder::close_timeout`] says.
///
/// It belongs to the process that has started it. In a forked child its methods answer [`SendError::Forked`] as soon as they
/// notice, and dropping it does nothing.
pub struct Sender {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Sender {
    /// A sender to be, with the defaults.
    pub fn builder() -> SenderBuilder {
        SenderBuilder::default()
    }

    pub(crate) fn start(options: SenderBuilder) -> Result<Sender, StartError> {
        // Its first use finds out, once in a process, what the processor can. A fork meanwhile would wait for that for ever.
        let _known = bbq_wire::batch::crc32c(b"bbq");
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| StartError::System(error.to_string()))?;
        let groups: Vec<Vec<ServerAddress>> = match options.delivery {
            Delivery::Any => vec![options.servers.clone()],
            Delivery::All => options.servers.iter().map(|server| vec![server.clone()]).collect(),
        };
        let (spool, recovered) = open_spool(&options, &groups, StreamId(random))?;
        let queue = Queue::new(&options, recovered.stream, recovered.next_sequence, groups.len());
        let count = queue.recover(recovered);
        let seed = u64::from_le_bytes(queue.stream().0.first_chunk::<8>().copied().unwrap_or_default());
        let outlets = groups
            .into_iter()
            .enumerate()
            .map(|(index, servers)| {
                let seed = seed.wrapping_add(index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                Outlet::new(index, servers, AdaptiveReconnect::new(options.reconnect, seed))
            })
            .collect();
        let shared = Arc::new(Shared {
            intake: Intake::new(options.on_full, spool.clone()),
            queue,
            outlets,
            spool,
            recovered: count,
            reported: AtomicU64::new(0),
            ended: Ended::default(),
            options,
        });
        let sender = Sender { shared: Arc::clone(&shared), threads: Mutex::default() };
        for index in 0..shared.outlets.len() {
            let running = Arc::clone(&shared);
            let thread = std::thread::Builder::new()
                .name("bbq-sender".to_owned())
                .spawn(move || {
                    running.outlets[index].run(&running);
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
    /// With one over 1 MiB it waits until a server has said what it takes, as long as [`SenderBuilder::on_full`] allows.
    ///
    /// # Errors
    /// [`SendError::Full`], [`SendError::SpoolFull`], [`SendError::MessageTooLarge`] and [`SendError::Spool`] for this record only,
    /// which is counted as dropped; any other is the end of the sender.
    #[inline]
    pub fn send(&self, record: &[u8]) -> Result<(), SendError> {
        self.shared.intake.push(&self.shared.queue, record)
    }

    /// Takes a record if that needs no waiting, whatever [`SenderBuilder::on_full`] says. One that is refused is not counted as
    /// dropped: the caller still has it, and may offer it again. With [`crate::OnFull::DropOldest`] older records go for it.
    ///
    /// # Errors
    /// As [`Sender::send`]. A record over 1 MiB is [`SendError::MessageTooLarge`] until a server has said what it takes.
    #[inline]
    pub fn try_send(&self, record: &[u8]) -> Result<(), SendError> {
        self.shared.intake.offer(&self.shared.queue, record)
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
        if !self.shared.intake.is_at_home() {
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
        if !self.shared.intake.is_at_home() {
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
        self.shared.ended.wait(self.shared.outlets.len(), END_WAIT.min(timeout));
        let threads = std::mem::take(&mut *self.threads());
        for thread in threads.into_iter().filter(JoinHandle::is_finished) {
            // A panic in it was printed; there is nothing left to do about it.
            let _ended = thread.join();
        }
        waited.map(|()| self.counters())
    }

    /// What it has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }

    /// How far each server is; with [`Delivery::Any`] all of them are one.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerProgress> {
        let shared = &self.shared;
        let progress = |(index, outlet): (usize, &Outlet)| {
            let (acknowledged, missing) = shared.queue.account_of(index);
            outlet.progress(acknowledged, missing)
        };
        shared.outlets.iter().enumerate().map(progress).collect()
    }

    /// Number of the last record taken, over all lives of the spool: a program that was killed goes on behind it.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.shared.intake.collect(&self.shared.queue);
        self.shared.queue.next_sequence() - 1
    }

    /// The set reconnect parameters; the present values are in [`Sender::servers`].
    #[must_use]
    pub fn reconnect(&self) -> Reconnect {
        self.shared.outlets.first().map(|outlet| outlet.reconnect().set()).unwrap_or_default()
    }

    /// Sets other reconnect parameters.
    ///
    /// # Errors
    /// Parameters that contradict each other; then nothing changes.
    pub fn set_reconnect(&self, reconnect: Reconnect) -> Result<(), ReconnectError> {
        reconnect.check()?;
        self.shared.outlets.iter().for_each(|outlet| outlet.reconnect().change(reconnect));
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

fn open_spool(
    options: &SenderBuilder,
    groups: &[Vec<ServerAddress>],
    new_stream: StreamId,
) -> Result<(Option<Arc<Spool>>, Recovered), StartError> {
    let Some(directory) = &options.spool else {
        return Ok((None, Recovered::nothing(new_stream, groups.len())));
    };
    let names: Vec<String> = match options.delivery {
        Delivery::Any => vec![String::new()],
        Delivery::All => options.servers.iter().map(ToString::to_string).collect(),
    };
    let extent_bytes = buffer_bytes(options.batch_bytes) as u64;
    let (spool, recovered) =
        Spool::open(directory, options.spool_bytes_max, &names, new_stream, extent_bytes)?;
    Ok((Some(Arc::new(spool)), recovered))
}

impl Shared {
    /// A server has welcomed the outlet.
    pub(crate) fn begin_connection(
        &self,
        outlet: usize,
        welcome: &Welcome,
        address: &ServerAddress,
    ) -> Result<(), Trouble> {
        let next = self.queue.next_sequence();
        if welcome.last_sequence >= next {
            // Only a spool that lost its end in a power failure is behind its server. Going on would make new records look
            // like old ones.
            return Err(Trouble::Final(SendError::Protocol {
                server: address.to_string(),
                problem: format!(
                    "it has record {} of this stream, and the spool ends before {next}: was its end lost? Move the spool away \
                     to begin a new stream",
                    welcome.last_sequence
                ),
            }));
        }
        self.acknowledged(outlet, welcome.last_sequence);
        self.queue.connected(outlet, welcome.last_sequence, welcome.message_bytes_max);
        Ok(())
    }

    /// The outlet's servers will never take anything. When no other outlet is left, nothing is taken any more.
    pub(crate) fn fail(&self, outlet: usize, error: &SendError) {
        self.queue.fail(outlet, error);
        if self.queue.failure().is_some() {
            self.intake.close(&self.queue);
        }
    }

    /// A server has everything up to the number.
    pub(crate) fn acknowledged(&self, outlet: usize, sequence: u64) {
        if sequence > self.queue.acknowledged_by(outlet) {
            self.outlets[outlet].reconnect().delivered();
        }
        // First: who hears of it may close the sender. What cannot be remembered, as on a full disk, is asked of the server at
        // the next start.
        let _remembered = self.spool.as_ref().map(|spool| spool.acknowledged(outlet, sequence));
        let everyone = self.queue.acknowledged(outlet, sequence);
        if let Some(spool) = &self.spool {
            // What cannot be deleted is tried again.
            let _retired = spool.retire(everyone);
        }
    }

    /// Without acknowledgements, what is written is all there is to know.
    pub(crate) fn written(&self, outlet: usize) {
        self.acknowledged(outlet, self.queue.sent_by(outlet));
    }

    /// Sends a record that says how many were dropped, once there is room again.
    pub(crate) fn report_drops(&self, outlet: usize) {
        if outlet != 0 || !self.options.report_drops {
            return;
        }
        let mut dropped = self.intake.dropped();
        dropped.oldest = self.queue.locked().dropped_oldest;
        let total = dropped.full + dropped.too_large + dropped.spool + dropped.oldest;
        let reported = self.reported.load(Ordering::Relaxed);
        if total > reported && !self.queue.is_closed() {
            let text = format!(
                "bbq: {} of this sender's messages were dropped before this one: {} found no room, {} were dropped for newer \
                 ones, {} were too large, {} could not be spooled, since it started",
                total - reported,
                dropped.full,
                dropped.oldest,
                dropped.too_large,
                dropped.spool
            );
            if self.intake.push_if_room(&self.queue, text.as_bytes()).is_ok() {
                self.reported.store(total, Ordering::Relaxed);
            }
        }
    }

    fn counters(&self) -> Counters {
        let (_still, accepted, open) = self.intake.stand_still();
        let state = self.queue.locked();
        let (queued, queued_bytes) = state.queued();
        let mut counters = Counters {
            accepted,
            recovered: self.recovered,
            sent: state.sent,
            acknowledged: state.acknowledged,
            queued: queued + open,
            queued_bytes,
            reconnects: self.outlets.iter().map(Outlet::reconnects).sum(),
            dropped: self.intake.dropped(),
        };
        counters.dropped.oldest = state.dropped_oldest;
        counters.dropped.abandoned = state.abandoned;
        counters
    }
}
