//! Streams whose file was truncated. Their last batches may be on the way to the disk, and a copy of the old content may come.

use std::time::Instant;

use bbq_wire::StreamId;

use crate::catalog::Entry;
use crate::store::{Outcome, Settled, Store};
use crate::tracked::Tail;

/// A stream without a file.
#[derive(Debug)]
pub(crate) struct Orphan {
    pub(crate) entry: Entry,
    /// The byte up to which it was handed over.
    pub(crate) position: u64,
    /// The bytes before that at which the reading of a copy goes on, as far as they are known.
    pub(crate) tail: Tail,
    pub(crate) durable: u64,
    /// Bytes that were seen behind the position.
    pub(crate) unread: u64,
    /// When no copy is expected any more, if a later scan than this one has found none.
    pub(crate) until: Instant,
    pub(crate) scan: u64,
    /// Whether it was looked for a copy until then.
    pub(crate) is_over: bool,
    pub(crate) is_failed: bool,
}

/// The streams without files.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    pub(crate) all: Vec<Orphan>,
}

impl Orphan {
    /// The byte at which the reading of a copy goes on.
    pub(crate) fn read(&self) -> u64 {
        self.position.max(self.entry.start)
    }
}

impl Orphans {
    pub(crate) fn settle(&mut self, settled: Settled, store: &mut impl Store) {
        let Settled { stream, to, outcome } = settled;
        let Some(orphan) = self.find(stream) else { return };
        match outcome {
            Outcome::Appended | Outcome::Later => {}
            Outcome::Durable => orphan.durable = orphan.durable.max(to),
            Outcome::Failed => orphan.is_failed = true,
        }
        self.forget_finished(store);
    }

    pub(crate) fn find(&mut self, stream: StreamId) -> Option<&mut Orphan> {
        self.all.iter_mut().find(|orphan| orphan.entry.stream == stream)
    }

    /// Forgets what is on disk and has no copy. Returns whether the catalog has changed.
    pub(crate) fn forget_finished(&mut self, store: &mut impl Store) -> bool {
        let before = self.all.len();
        self.all.retain(|orphan| {
            let is_finished = orphan.is_over && !orphan.is_failed && orphan.durable >= orphan.position;
            if is_finished {
                store.forget(orphan.entry.stream);
            }
            !is_finished
        });
        self.all.len() != before
    }
}
