//! A batch of a file on its way to the worker of its stream's home.

use std::sync::Arc;

use bbq_read::{FileBatch, Outcome};
use bbq_stored::Stream;

use super::link::{ReaderLink, ToldBatch};

/// Batches of a reader that workers have and no lane has: so many that each worker finds the next one when its lane has room.
pub(crate) const HANDED_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct HandedRead {
    pub(super) stream: Arc<Stream>,
    pub(super) batch: FileBatch,
    /// The index of the reader in the configuration.
    pub(super) reader: usize,
    pub(super) link: Arc<ReaderLink>,
    /// How often it was passed on by a worker.
    pub(super) moves: u8,
}

impl HandedRead {
    /// What tells its reader, at the worker of this lane.
    pub(super) fn told(&self, lane: u32) -> ToldBatch {
        let FileBatch { stream, to, .. } = self.batch;
        ToldBatch { link: Arc::clone(&self.link), stream, to, lane }
    }

    /// Tells its reader what became of it: it leaves the worker's hands.
    pub(super) fn tell_first(&self, lane: u32, outcome: Outcome) {
        self.told(lane).tell_first(outcome, self.batch.bytes.capacity());
    }
}
