//! The assembly of chunks of a listener. All workers share it, as the chunks of a message may come to several of them: with `spread=packets`, or
//! with a distribution that gives a datagram to the next free worker.
//!
//! Only chunks take the lock. It is held while one is put to the others of its message.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bbq_senders::gelf::{Assembler, ChunkError, Lost};
use bbq_stored::{DropReason, ListenerLedger};
use bbq_wire::Peer;

use crate::listen::ListenSpec;
use crate::listen::protocol::GELF;

/// How often a worker looks whether the time of messages is over. What comes too late is noticed without that; it is for the ledger.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub struct GelfChunks {
    assembler: Mutex<Assembler>,
    began: Instant,
    /// Whether there are messages whose time goes on.
    is_waiting: AtomicBool,
    /// Workers that receive.
    workers: AtomicUsize,
}

impl GelfChunks {
    /// Of a listener; `None` if it has no chunks.
    #[must_use]
    pub fn of(spec: &ListenSpec) -> Option<Arc<GelfChunks>> {
        has_chunks(spec).then(|| {
            Arc::new(GelfChunks {
                assembler: Mutex::new(Assembler::new(spec.rules.message_bytes_max as usize)),
                began: Instant::now(),
                is_waiting: AtomicBool::new(false),
                workers: AtomicUsize::new(0),
            })
        })
    }

    /// The memory that a listener may need for messages that are not complete.
    #[must_use]
    pub fn bytes_max(spec: &ListenSpec) -> u64 {
        if has_chunks(spec) { Assembler::bytes_max(spec.rules.message_bytes_max as usize) as u64 } else { 0 }
    }

    /// Takes a chunk. Returns its message if that is complete now.
    pub(super) fn take(
        &self,
        peer: Peer,
        chunk: &[u8],
        ledger: &ListenerLedger,
    ) -> Result<Option<Vec<u8>>, ChunkError> {
        let now_ms = self.now_ms();
        self.with(ledger, |assembler| assembler.take(now_ms, peer.into(), chunk))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Calls `act`, and counts the messages that were given up for it.
    fn with<T>(&self, ledger: &ListenerLedger, act: impl FnOnce(&mut Assembler) -> T) -> T {
        let mut assembler = self.assembler.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut assembler);
        let Lost { incomplete, evicted } = assembler.take_lost();
        self.is_waiting.store(!assembler.is_empty(), Ordering::Relaxed);
        drop(assembler);
        ledger.add_dropped(DropReason::Incomplete, incomplete);
        ledger.add_dropped(DropReason::Memory, evicted);
        result
    }
}

fn has_chunks(spec: &ListenSpec) -> bool {
    *spec.protocol == GELF && spec.is_datagram()
}

/// A worker's part in the assembly.
pub(crate) struct ChunksOfWorker<'a> {
    chunks: &'a GelfChunks,
    ledger: &'a ListenerLedger,
    /// When it looks next, if there is anything to look for.
    next_look: Cell<Option<tokio::time::Instant>>,
}

impl<'a> ChunksOfWorker<'a> {
    /// The worker begins to receive.
    pub(crate) fn begin(chunks: &'a Arc<GelfChunks>, ledger: &'a ListenerLedger) -> ChunksOfWorker<'a> {
        chunks.workers.fetch_add(1, Ordering::Relaxed);
        ChunksOfWorker { chunks, ledger, next_look: Cell::new(None) }
    }

    /// Waits until the time of messages may be over, and then counts those. A wait that is given up goes on with the next call.
    pub(crate) async fn look(&self) {
        if !self.chunks.is_waiting.load(Ordering::Relaxed) {
            self.next_look.set(None);
            return std::future::pending().await;
        }
        let next = self.next_look.get().unwrap_or_else(|| tokio::time::Instant::now() + LOOK_INTERVAL);
        self.next_look.set(Some(next));
        tokio::time::sleep_until(next).await;
        self.next_look.set(None);
        let now_ms = self.chunks.now_ms();
        self.chunks.with(self.ledger, |assembler| assembler.expire(now_ms));
    }
}

/// The last worker gives up what is not complete.
impl Drop for ChunksOfWorker<'_> {
    fn drop(&mut self) {
        if self.chunks.workers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.chunks.with(self.ledger, Assembler::give_up);
        }
    }
}
