//! Takes the records of the application's threads.
//!
//! Each thread uses one of a few shards, and fills the block in it. A record that fits into the block costs an uncontended lock and a
//! copy: no clock, no system call. Only a full block, or the first record of a new one, costs more.
//!
//! Invariant: the records of one thread keep their order. Locks are taken in this order: shard, then queue or spool.
//! Invariant: a forked child never waits for a lock, as a thread of the parent may hold the lock. A free lock is taken at once; before
//! a wait, or a second lock, the process is checked.

mod wait_limit;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use bbq_wire::limits::MESSAGE_BYTES_MAX;

use crate::intake::wait_limit::{Interrupt, WaitLimit};
use crate::queue::Queue;
use crate::queue::block::Block;
use crate::queue::parker::Parker;
use crate::spool::{AppendError, Spool};
use crate::{Dropped, OnFull, SendError};

/// This many threads can send at once without waiting for each other.
const SHARDS: usize = 16;
/// How often a record is tried again while the disk of the spool is full.
const SPOOL_RETRY: Duration = Duration::from_millis(50);

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SHARD: usize = THREADS.fetch_add(1, Ordering::Relaxed);
}

/// Aligned, so that no two shards share a cache line.
#[repr(align(128))]
#[derive(Default)]
struct Shard {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    block: Option<Block>,
    /// Records taken in this shard, without those in `block`.
    accepted: u64,
    closed: bool,
}

/// Records that were not taken, by reason.
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
    /// The process that started the sender, and has its threads.
    process: u32,
}

impl Intake {
    pub(crate) fn new(on_full: OnFull, spool: Option<std::sync::Arc<Spool>>) -> Intake {
        // The records of a spool are in one file, in the order of their numbers.
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
    fn shard_of_thread(&self) -> &Mutex<Inner> {
        // A thread that is ending has no thread-local value any more, and may use any shard.
        let shard = SHARD.try_with(|shard| *shard).unwrap_or(0);
        &self.shards[shard % self.shards.len()].inner
    }

    /// Locks the shard of this thread; `None` in a forked child if the lock is taken.
    fn lock(&self) -> Option<MutexGuard<'_, Inner>> {
        let inner = self.shard_of_thread();
        match inner.try_lock() {
            Ok(shard) => Some(shard),
            Err(error) => self.lock_slowly(inner, error),
        }
    }

    #[cold]
    fn lock_slowly<'a>(
        &self,
        inner: &'a Mutex<Inner>,
        error: TryLockError<MutexGuard<'a, Inner>>,
    ) -> Option<MutexGuard<'a, Inner>> {
        match error {
            TryLockError::Poisoned(shard) => Some(shard.into_inner()),
            TryLockError::WouldBlock if !self.is_own_process() => None,
            TryLockError::WouldBlock => Some(inner.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Takes one record.
    #[inline]
    pub(crate) fn push(&self, queue: &Queue, record: &[u8]) -> Result<(), SendError> {
        if let Ok(mut shard) = self.shard_of_thread().try_lock()
            && self.push_at_once(queue, &mut shard, record)
        {
            return Ok(());
        }
        self.push_slowly(queue, record)
    }

    /// Takes one record if it needs a new block, or the shard is locked.
    fn push_slowly(&self, queue: &Queue, record: &[u8]) -> Result<(), SendError> {
        let Some(mut shard) = self.lock() else { return Err(SendError::Forked) };
        if self.push_at_once(queue, &mut shard, record) {
            return Ok(());
        }
        // Cheap while a server is down for long: the queue is not locked until something has left it.
        if self.on_full == OnFull::DropNewest && queue.is_full() && !shard.closed {
            self.refused.full.fetch_add(1, Ordering::Relaxed);
            return Err(SendError::Full { queue_bytes_max: queue.bytes_max() });
        }
        let outcome = self.try_push(queue, shard, record, &mut WaitLimit::of(self.on_full));
        self.count(&outcome);
        outcome
    }

    /// Takes one record, and calls `go_on` every `slice` while the record waits. Returns `None` if `go_on` returns `false`; the record is
    /// then not counted.
    pub(crate) fn push_while(
        &self,
        queue: &Queue,
        record: &[u8],
        slice: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<Result<(), SendError>> {
        let Some(mut shard) = self.lock() else { return Some(Err(SendError::Forked)) };
        if self.push_at_once(queue, &mut shard, record) {
            return Some(Ok(()));
        }
        let interrupt = Some(Interrupt::new(slice, go_on));
        let mut limit = WaitLimit { interrupt, ..WaitLimit::of(self.on_full) };
        let outcome = self.try_push(queue, shard, record, &mut limit);
        if outcome.is_err() && limit.interrupt.is_some_and(|interrupt| interrupt.stopped) {
            return None;
        }
        self.count(&outcome);
        Some(outcome)
    }

    /// Takes one record if it need not wait. A refused record still belongs to the caller, and is not counted.
    #[inline]
    pub(crate) fn offer(&self, queue: &Queue, record: &[u8]) -> Result<(), SendError> {
        let Some(mut shard) = self.lock() else { return Err(SendError::Forked) };
        if self.push_at_once(queue, &mut shard, record) {
            return Ok(());
        }
        let on_full = if self.on_full == OnFull::DropOldest { self.on_full } else { OnFull::DropNewest };
        self.try_push(queue, shard, record, &mut WaitLimit::of(on_full))
    }

    /// Takes a record if the shard's block has room and there is nothing else to do. Returns whether it did.
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

    /// Takes one of the sender's own records if there is room. A refused record is not counted.
    pub(crate) fn push_if_room(&self, queue: &Queue, record: &[u8]) -> Result<(), SendError> {
        let shard = self.lock().ok_or(SendError::Forked)?;
        self.try_push(queue, shard, record, &mut WaitLimit::of(OnFull::DropNewest))
    }

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
        // Other locks are taken from here on, and a child does not know where the spool's files end.
        if !self.is_own_process() {
            return Err(SendError::Forked);
        }
        loop {
            if shard.closed {
                return Err(queue.failure().unwrap_or(SendError::Closed));
            }
            if record.len() > queue.message_bytes_max() {
                // A server says only in its welcome whether it takes more than the default.
                let may_be_taken = record.len() <= MESSAGE_BYTES_MAX as usize && queue.limit_is_unknown();
                drop(shard);
                if !may_be_taken || !limit.waits(|deadline| queue.wait_for_limit(deadline)) {
                    let message_bytes_max = queue.message_bytes_max() as u32;
                    return Err(SendError::MessageTooLarge { bytes: record.len(), limit: message_bytes_max });
                }
                shard = self.lock().ok_or(SendError::Forked)?;
                continue;
            }
            if shard.block.as_ref().is_some_and(|block| block.has_room(record.len())) {
                let outcome = self.put(queue, &mut shard, record);
                if !matches!(outcome, Err(SendError::SpoolFull { .. })) {
                    return outcome;
                }
                drop(shard);
                if !limit.waits(|deadline| queue.pause(SPOOL_RETRY, deadline)) {
                    return outcome;
                }
                shard = self.lock().ok_or(SendError::Forked)?;
                continue;
            }
            hand_over(queue, &mut shard);
            shard.block = queue.reserve(record.len(), limit.on_full);
            if shard.block.is_none() {
                drop(shard);
                if !limit.waits(|deadline| queue.wait_for_room(record.len(), deadline)) {
                    return Err(SendError::Full { queue_bytes_max: queue.bytes_max() });
                }
                shard = self.lock().ok_or(SendError::Forked)?;
            }
        }
    }

    /// Adds the record to the spool and to the shard's block, which has room for it. After [`SendError::SpoolFull`] another try may
    /// succeed.
    fn put(&self, queue: &Queue, shard: &mut Inner, record: &[u8]) -> Result<(), SendError> {
        let Some(block) = &mut shard.block else { return Err(SendError::Closed) };
        let is_first = block.builder.is_empty();
        if let Some(spool) = &self.spool {
            let directory = || spool.directory().to_owned();
            let appended = spool.append(record, is_first).map_err(|error| match error {
                AppendError::Full(why) => SendError::SpoolFull { directory: directory(), why },
                AppendError::Failed(error) => {
                    SendError::Spool { directory: directory(), problem: error.to_string() }
                }
            })?;
            if appended.is_some() {
                block.extent = appended;
            }
        }
        block.push(record);
        if is_first {
            queue.parkers.iter().for_each(Parker::unpark_for_first_record);
        }
        Ok(())
    }

    fn locked(&self) -> impl Iterator<Item = MutexGuard<'_, Inner>> {
        self.shards.iter().map(|shard| shard.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Moves the blocks of all shards to the queue. Returns whether there were any.
    pub(crate) fn collect(&self, queue: &Queue) -> bool {
        let mut found = false;
        for mut inner in self.locked() {
            found |= inner.block.is_some();
            hand_over(queue, &mut inner);
        }
        found
    }

    pub(crate) fn has_records(&self) -> bool {
        self.locked().any(|inner| inner.block.is_some())
    }

    /// Moves the blocks of all shards to the queue, and takes no more records.
    pub(crate) fn close(&self, queue: &Queue) {
        for mut inner in self.locked() {
            inner.closed = true;
            hand_over(queue, &mut inner);
        }
    }

    pub(crate) fn is_own_process(&self) -> bool {
        std::process::id() == self.process
    }

    /// Returns a guard, the number of records taken, and how many of them are not in the queue yet. While the guard lives, nothing is taken
    /// or queued.
    pub(crate) fn freeze(&self) -> (impl Sized, u64, u64) {
        let shards: Vec<MutexGuard<'_, Inner>> = self.locked().collect();
        let accepted: u64 = shards.iter().map(|shard| shard.accepted).sum();
        let open: u64 = shards
            .iter()
            .filter_map(|shard| shard.block.as_ref())
            .map(|block| u64::from(block.builder.records()))
            .sum();
        (shards, accepted + open, open)
    }

    /// Records that were not taken, by reason.
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

/// Moves the shard's block to the queue.
fn hand_over(queue: &Queue, shard: &mut Inner) {
    if let Some(block) = shard.block.take() {
        shard.accepted += u64::from(block.builder.records());
        queue.append(block);
    }
}
