//! The streams of a journal: one for each sequence number id.

use std::collections::HashMap;

use bbq_wire::{BatchBuilder, StreamId};

use super::catalog::{KnownId, stream_of};
use crate::limits::{TURN_BYTES, TURN_RECORDS_MAX};
use crate::store::{FileBatch, Store};
use crate::view::{LossReason, ReaderView};

/// Ids of a reader: each user of a machine has one, and each loss of the journal's files begins another one.
pub(crate) const IDS_MAX: usize = 4096;

/// Entries that are left out, and not counted before the batch behind them is in a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) oversize: u64,
    pub(crate) oversize_bytes: u64,
    pub(crate) without_message: u64,
    /// By the rules.
    pub(crate) filtered: u64,
}

impl LeftOut {
    /// Counts them.
    pub(crate) fn count(self, view: &ReaderView) {
        view.lose_lines((self.oversize, self.oversize_bytes));
        view.lose_count(LossReason::NoMessage, self.without_message);
        view.filter(self.filtered);
    }
}

/// A batch that is handed over and not in a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InHand {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) bytes: usize,
    pub(crate) left_out: LeftOut,
}

/// The entries of one sequence number id.
pub(crate) struct JournalStream {
    pub(crate) known: KnownId,
    pub(crate) stream: StreamId,
    /// The number up to which entries are known or in a batch.
    pub(crate) read: u64,
    /// The same when the reader began with this stream.
    pub(crate) loaded: u64,
    /// No entry up to `read` is newer.
    pub(crate) newest_us: u64,
    /// The number up to which batches were handed over.
    pub(crate) handed: u64,
    pub(crate) batch: BatchBuilder,
    /// The number of its last entry.
    pub(crate) batch_to: u64,
    pub(crate) left_out: LeftOut,
    pub(crate) in_hand: Option<InHand>,
    /// What the store did not take.
    pub(crate) returned: Option<FileBatch>,
    pub(crate) is_catalogued: bool,
    /// A lane failed: nothing more is read until the server starts again.
    pub(crate) is_resting: bool,
}

impl JournalStream {
    /// `newest_us` is a time before which all of its entries that are known were written.
    pub(crate) fn new(salt: u128, known: KnownId, newest_us: u64, store: &mut impl Store) -> JournalStream {
        let stream = stream_of(salt, known.seqnum_id, known.generation);
        let position = store.position(stream);
        JournalStream {
            known,
            stream,
            read: position.max(known.fork),
            loaded: position.max(known.fork),
            newest_us,
            handed: position,
            batch: BatchBuilder::new(),
            batch_to: 0,
            left_out: LeftOut::default(),
            in_hand: None,
            returned: None,
            is_catalogued: false,
            is_resting: false,
        }
    }

    /// Bytes of its open batch.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.batch.body_bytes() + self.batch.detail_bytes()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.batch_bytes() >= TURN_BYTES || self.batch.records() >= TURN_RECORDS_MAX
    }

    /// Whether nothing of it is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.batch.is_empty() && self.in_hand.is_none()
    }
}

/// By sequence number id.
pub(crate) type Streams = HashMap<u128, JournalStream>;
