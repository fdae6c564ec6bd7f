//! The application's end: where its threads put their records.
//!
//! A thread has a shard of its own among a few, with a block that it fills. While it fills, nothing is touched but that: a lock
//! that nobody else wants, a copy, no clock, no system call. Only a full block, or the first record of an empty one, goes further.
//!
//! Invariant: the records of one thread keep their order. Locks are taken in this order: shard, then queue or spool.
//! Invariant: in a forked child nobody waits for a lock, as who holds it may be in the parent. A lock that is free is taken at once;
//! before it is waited for, or another one is taken, the process is looked at.

mod wait_limit;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use bbq_wire::limits::MESSAGE_BYTES_MAX;

use crate::intake::wait_limit::{Interrupt, WaitLimit};
use crate::queue::block::Block;
use crate::queue::parker::Parker;
use crate::queue::{NoRoom, Queue};
use crate::spool::{AppendError, Spool};
use crate::{Dropped, OnFull, SendError};

/// Shards of threads: as many as may send at once without waiting for each other; more share.
const SHARDS: usize = 16;
/// While the disk of a spool is full it is tried again so often.
const SPOOL_RETRY: Duration = Duration::from_millis(50);

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SHARD: usize = THREADS.fetch_add(1, Ordering::Relaxed);
}

/// A thread's shard; alone on its cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Shard {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    block: Option<Block>,
    /// Records taken in this shard, those in `block` not included.
    accepted: u64,
    closed: bool,
}

/// Records that were not taken, by the reason.
#[derive(Default)]
struct Refused {
    full: AtomicU64,
    too_large: AtomicU64,
    spool: AtomicU64,
    closed: AtomicU64,
}

pub(crate) struct Intake {
    shards: Box<[Shard]>,
    on_full: OnFull,
    spool: Option<std::sync::Arc<Spool>>,
    refused: Refused,
    /// The process that started the sender: in another one its threads do not run.
    process: u32,
}

impl Intake {
    pub(crate) fn new(on_full: OnFull, spool: Option<std::sync::Arc<Spool>>) -> Intake {
        // The spool is one file, in the order of the numbers.
        let shards = if spool.is_some() { 1 } else { SHARDS };
        Intake {
            shards: (0..shards).map(|_| Shard::default()).collect(),
            on_full,
            spool,
            refused: Refused::default(),
            process: std::process::id(),
        }
    }

    #[inline]
    fn mine(&self) -> &Mutex<Inner> {
        // A thread that is ending has lost its number; then any shard is good.
        let shard = SHARD.try_with(|shard| *shard).unwrap_or(0);
        &self.shards[shard % self.shards.len()].inner
    }

    /// The shard of this thread; `None` in a forked child where somebody else has it.
    fn shard(&self) -> Option<MutexGuard<'_, Inner>> {
        let inner = self.mine();
        match inner.try_lock() {
            Ok(shard) => Some(shard),
            Err(error) => self.wait_for(inner, error),
        }
    }

    /// A shard that was not to be had at once.
    #[cold]
    fn wait_for<'a>(
        &self,
        inner: &'a Mutex<Inner>,
        error: TryLockError<MutexGuard<'a, Inner>>,
    ) -> Option<MutexGuard<'a, Inner>> {
        match error {
            TryLockError::Poisoned(shard) => Some(shard.into_inner()),
            // Who holds it may be in the parent.
            TryLockError::WouldBlock if !self.is_own_process() => None,
            TryLockError::WouldBlock => Some(inner.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Takes one record.
    #[inline]
    pub(crate) fn push(&self, queue: &Queue, record: &[u8]) -> Result<(), SendError> {
        if let Ok(mut shard) = self.mine().try_lock()
            && self.push_at_once(queue, &mut shard, record)
        {
            return Ok(());
        }
        self.push_otherwise(queue, record)
    }

    /// Takes one record where more is to be done, or the thread's shard is another's now.
    fn push_otherwise(&self, queue: &Queue, record: &[u8]) -> Result<(), SendError> {
        let Some(mut shard) = self.shard() else { return Err(SendError::Forked) };
        if self.push_at_once(queue, &mut shard, record) {
            return Ok(());
        }
        // A server that is away for long must not make it dearer: the queue is not asked again before something went.
        if self.on_full == OnFull::DropNewest && queue.is_full() && !shard.closed {
            self.refused.full.fetch_add(1, Ordering::Relaxed);
            return Err(SendError::Full { queue_bytes_max: queue.bytes_max() });
        }
        self.push_slowly(queue, shard, record, &mut WaitLimit::of(self.on_full))
    }

    /// Takes one record, and asks `go_on` so often whether to wait on; `None` when it says no, and nobody counts the record.
    pub(crate) fn push_while(
        &self,
        queue: &Queue,
        record: &[u8],
        slice: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<Result<(), SendError>> {
        let Some(mut shard) = self.shard() else { return Some(Err(SendError::Forked)) };
        if self.push_at_once(queue, &mut shard, record) {
            return Some(Ok(()));
        }
        let interrupt = Some(Interrupt::new(slice, go_on));
        let mut limit = WaitLimit { interrupt, ..WaitLimit::of(self.on_full) };
        let outcome = self.try_push(queue, shard, record, &mut limit);
        if outcome.is_err() && limit.interrupt.is_some_and(|interrupt| interrupt.said_no) {
            return None;
        }
        self.count(&outcome);
        Some(outcome)
    }

    /// Takes one record if that needs no waiting. What is refused is still the caller's, so nobody counts it.
    #[inline]
    pub(crate) fn offer(&self, queue: &Queue, record: &[u8]) -> Result<(), SendError> {
        let Some(mut shard) = self.shard() else { return Err(SendError::Forked) };
        if self.push_at_once(queue, &mut shard, record) {
            return Ok(());
        }
        let on_full = if self.on_full == OnFull::DropOldest { self.on_full } else { OnFull::DropNewest };
        self.try_push(queue, shard, record, &mut WaitLimit::of(on_full))
    }

    /// Takes a record for which the shard's block has room, if nothing else is to be done.
    #[inline]
    fn push_at_once(&self, queue: &Queue, shard: &mut Inner, record: &[u8]) -> bool {
        if self.spool.is_none()
            && !shard.closed
            && record.len() <= queue.message_bytes_max()
            && let Some(block) = &mut shard.block
            && block.has_room(record.len())
        {
            block.push(record);
            return true;
        }
        false
    }

    /// Takes records until one is refused; answers how many.
    pub(crate) fn push_all<'a>(
        &self,
        queue: &Queue,
        records: impl Iterator<Item = &'a [u8]>,
    ) -> (u64, Result<(), SendError>) {
        let mut taken = 0;
        for record in records {
            if let Err(error) = self.push(queue, record) {
                return (taken, Err(error));
            }
            taken += 1;
        }
        (taken, Ok(()))
    }

    /// Takes a record of the sender's own if there is room; nobody counts it if there is none.
    pub(crate) fn push_if_room(&self, queue: &Queue, record: &[u8]) -> Result<(), SendError> {
        self.try_push(
            queue,
            self.shard().ok_or(SendError::Forked)?,
            record,
            &mut WaitLimit::of(OnFull::DropNewest),
        )
    }

    fn push_slowly<'a>(
        &'a self,
        queue: &Queue,
        shard: MutexGuard<'a, Inner>,
        record: &[u8],
        limit: &mut WaitLimit<'_>,
    ) -> Result<(), SendError> {
        let outcome = self.try_push(queue, shard, record, limit);
        self.count(&outcome);
        outcome
    }

    /// Counts a record that was not taken.
    fn count(&self, outcome: &Result<(), SendError>) {
        let counter = match outcome {
            Ok(()) | Err(SendError::Forked) => return,
            Err(SendError::Full { .. } | SendError::SpoolFull { .. }) => &self.refused.full,
            Err(SendError::MessageTooLarge { .. }) => &self.refused.too_large,
            Err(SendError::Spool { .. }) => &self.refused.spool,
            Err(_) => &self.refused.closed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn try_push<'a>(
        &'a self,
        queue: &Queue,
        mut shard: MutexGuard<'a, Inner>,
        record: &[u8],
        limit: &mut WaitLimit<'_>,
    ) -> Result<(), SendError> {
        // From here on other locks are taken, and a child has its own idea of where the spool's files end.
        if !self.is_own_process() {
            return Err(SendError::Forked);
        }
        loop {
            if shard.closed {
                return Err(queue.failure().unwrap_or(SendError::Closed));
            }
            if record.len() > queue.message_bytes_max() {
                // Whether a server takes more than most do, only its welcome says.
                let may_be_taken = record.len() <= MESSAGE_BYTES_MAX as usize && queue.limit_is_unknown();
                drop(shard);
                if !may_be_taken || !limit.waits(|deadline| queue.wait_for_limit(deadline)) {
                    let message_bytes_max = queue.message_bytes_max() as u32;
                    return Err(SendError::MessageTooLarge { bytes: record.len(), limit: message_bytes_max });
                }
                shard = self.shard().ok_or(SendError::Forked)?;
                continue;
            }
            if shard.block.as_ref().is_some_and(|block| block.has_room(record.len())) {
                match self.put(queue, &mut shard, record) {
                    Put::Done => return Ok(()),
                    Put::Failed(error) => return Err(error),
                    Put::Full(error) => {
                        drop(shard);
                        if !limit.waits(|deadline| queue.pause(SPOOL_RETRY, deadline)) {
                            return Err(error);
                        }
                        shard = self.shard().ok_or(SendError::Forked)?;
                        continue;
                    }
                }
            }
            hand_over(queue, &mut shard);
            match queue.reserve(record.len(), limit.on_full) {
                Ok(block) => shard.block = Some(block),
                Err(NoRoom) => {
                    drop(shard);
                    if !limit.waits(|deadline| queue.wait_for_room(record.len(), deadline)) {
                        return Err(SendError::Full { queue_bytes_max: queue.bytes_max() });
                    }
                    shard = self.shard().ok_or(SendError::Forked)?;
                }
            }
        }
    }

    /// Adds the record to the shard's block, in which it has room.
    fn put(&self, queue: &Queue, shard: &mut Inner, record: &[u8]) -> Put {
        let Some(block) = &mut shard.block else { return Put::Failed(SendError::Closed) };
        let is_first = block.builder.is_empty();
        if let Some(spool) = &self.spool {
            let directory = || spool.directory().to_owned();
            match spool.append(record, is_first) {
                Ok(Some(extent)) => block.extent = Some(extent),
                Ok(None) => {}
                Err(AppendError::Full(why)) => {
                    return Put::Full(SendError::SpoolFull { directory: directory(), why });
                }
                Err(AppendError::Failed(error)) => {
                    let problem = error.to_string();
                    return Put::Failed(SendError::Spool { directory: directory(), problem });
                }
            }
        }
        block.push(record);
        if is_first {
            queue.parkers.iter().for_each(Parker::unpark_for_first_record);
        }
        Put::Done
    }

    /// Puts what is in the shards in line; answers whether there was something.
    pub(crate) fn collect(&self, queue: &Queue) -> bool {
        let mut found = false;
        for shard in &self.shards {
            let mut inner = shard.inner.lock().unwrap_or_else(PoisonError::into_inner);
            found |= inner.block.is_some();
            hand_over(queue, &mut inner);
        }
        found
    }

    /// Whether a shard has something.
    pub(crate) fn has_some(&self) -> bool {
        self.shards
            .iter()
            .any(|shard| shard.inner.lock().unwrap_or_else(PoisonError::into_inner).block.is_some())
    }

    /// Takes nothing any more, and puts what it has in line.
    pub(crate) fn close(&self, queue: &Queue) {
        for shard in &self.shards {
            let mut inner = shard.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.closed = true;
            hand_over(queue, &mut inner);
        }
    }

    /// Whether this is the process that started the sender.
    pub(crate) fn is_own_process(&self) -> bool {
        std::process::id() == self.process
    }

    /// Records taken, and of these, records that are not in line yet; nothing is taken or put in line while the first part is held.
    pub(crate) fn freeze(&self) -> (impl Sized, u64, u64) {
        let shards: Vec<MutexGuard<'_, Inner>> = self
            .shards
            .iter()
            .map(|shard| shard.inner.lock().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let accepted: u64 = shards.iter().map(|shard| shard.accepted).sum();
        let open: u64 = shards
            .iter()
            .filter_map(|shard| shard.block.as_ref())
            .map(|block| u64::from(block.builder.records()))
            .sum();
        (shards, accepted + open, open)
    }

    /// Records that were not taken.
    pub(crate) fn dropped(&self) -> Dropped {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Dropped {
            full: count(&self.refused.full),
            too_large: count(&self.refused.too_large),
            spool: count(&self.refused.spool),
            closed: count(&self.refused.closed),
            ..Dropped::default()
        }
    }
}

enum Put {
    Done,
    /// There may be room later.
    Full(SendError),
    Failed(SendError),
}

fn hand_over(queue: &Queue, shard: &mut Inner) {
    if let Some(block) = shard.block.take() {
        shard.accepted += u64::from(block.builder.records());
        queue.append(block);
    }
}
