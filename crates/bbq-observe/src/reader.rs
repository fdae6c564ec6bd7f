//! A reader of files, as status and control see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bbq_read::{LossReason, ReadSpec, ReaderView};
use bbq_stored::{DropReason, ListenerLedger};

/// A reader of files, as status and control see it.
#[derive(Clone, Debug)]
pub struct Reader {
    /// What is configured.
    pub spec: Arc<ReadSpec>,
    /// What its thread tells.
    pub view: Arc<ReaderView>,
    /// Lines over the limit of which the ledger knows.
    oversize_seen: Arc<AtomicU64>,
    /// Messages left out of which the ledger knows.
    filtered_seen: Arc<AtomicU64>,
}

impl Reader {
    /// A reader that has not begun.
    #[must_use]
    pub fn new(spec: ReadSpec, view: Arc<ReaderView>) -> Reader {
        Reader { spec: Arc::new(spec), view, oversize_seen: Arc::default(), filtered_seen: Arc::default() }
    }

    /// Counts the lines that the reader has dropped or left out since the last call. What else it has lost are bytes, of which nobody knows how many
    /// messages they were.
    pub(crate) fn note_drops(&self, ledger: &ListenerLedger) {
        let dropped = self.view.loss(LossReason::Oversize).count;
        let seen = self.oversize_seen.fetch_max(dropped, Ordering::Relaxed);
        ledger.add_dropped(DropReason::Oversize, dropped.saturating_sub(seen));
        let filtered = self.view.filtered.load(Ordering::Relaxed);
        let seen = self.filtered_seen.fetch_max(filtered, Ordering::Relaxed);
        ledger.add_filtered(filtered.saturating_sub(seen));
    }
}
