//! A durable group of a lane.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bbq_wire::batch::Origin;
use bbq_wire::{Batch, Peer};

use crate::LanePlace;
use crate::format::{Envelope, GROUP_FRAME_BYTES, GroupFrame, Sources};
use crate::hot::HotGroup;
use crate::lane::LaneCore;
use crate::lens::{Lens, ParseFields};
use crate::limits::READ_BYTES_TARGET;
use crate::quarantine;
use crate::walk::{self, Step};

/// One batch of a lane.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Which lane.
    pub lane: u32,
    /// Name of the source; empty when the segment's header is damaged.
    pub source: &'a str,
    /// How it was received.
    pub envelope: Envelope,
    /// The batch.
    pub batch: Batch<'a>,
    /// Finds fields in the records, if the group is seen through a lens that knows how.
    pub parser: Option<&'a Arc<dyn ParseFields>>,
}

impl<'a> Entry<'a> {
    /// The same with another batch, such as a part of its own.
    #[must_use]
    pub fn with_batch<'b>(&self, batch: Batch<'b>) -> Entry<'b>
    where
        'a: 'b,
    {
        let Entry { lane, source, envelope, parser, .. } = *self;
        Entry { lane, source, envelope, batch, parser }
    }
}

impl Entry<'_> {
    /// Where and when the batch was received. If several servers passed it on, the first server counts.
    #[must_use]
    pub fn origin(&self) -> Origin<'_> {
        let here = Origin { received_ns: self.envelope.received_ns, listener: self.source };
        self.batch.origin().unwrap_or(here)
    }

    /// The peer of each record.
    pub fn peers(&self) -> impl Iterator<Item = Peer> {
        // If another server passed the batch on, the envelope's peer is that server, not the sender.
        let here = if self.batch.origin().is_some() { Peer::Unnamed } else { self.envelope.peer };
        // A batch names peers for all of its records or for none.
        let named =
            self.batch.peers().flat_map(|(records, peer)| std::iter::repeat_n(peer, records as usize));
        named.chain(std::iter::repeat(here))
    }

    /// Each record with its number and its peer.
    pub fn numbered(&self) -> impl Iterator<Item = (u64, &[u8], Peer)> {
        // The numbers come last: behind the last record nobody asks for another one, which may not be a number any more.
        let records = self.batch.records().zip(self.peers()).zip(self.batch.header.first_sequence..);
        records.map(|((record, peer), sequence)| (sequence, record, peer))
    }
}

/// The batches that one write and one sync made durable. A group may be sent to another thread. The memory of a group is
/// reused when the group is dropped.
pub struct Group {
    pub(crate) core: Arc<LaneCore>,
    pub(crate) frame: GroupFrame,
    pub(crate) until: LanePlace,
    pub(crate) sources: Arc<Sources>,
    pub(crate) entries: Entries,
    /// `None` if all of the group is shown, as it is.
    pub(crate) lens: Option<Box<Lens>>,
}

/// Where the entries are.
pub(crate) enum Entries {
    /// In the memory of the writer, until the group is dropped.
    Hot(Option<Arc<HotGroup>>),
    /// In a buffer that was read from a segment.
    Read(Arc<Vec<u8>>, Range<usize>),
}

/// Buffers in which compressed batches are unpacked, one after the other, and records are changed.
#[derive(Debug, Default)]
pub struct Scratch {
    unpacked: Vec<u8>,
    /// The records of a batch as a lens shows them, and one of them.
    changed: Vec<u8>,
    record: Vec<u8>,
}

impl Scratch {
    #[cfg(test)]
    pub(crate) fn of_bytes(bytes: usize) -> Scratch {
        Scratch { unpacked: vec![0; bytes], ..Scratch::default() }
    }

    /// Frees the memory of a very large batch. Call this when there is nothing to read, as the next batch may be as large.
    pub fn trim(&mut self) {
        if self.bytes() > READ_BYTES_TARGET {
            *self = Scratch::default();
        }
    }

    /// The capacity of the buffers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.unpacked.capacity() + self.changed.capacity() + self.record.capacity()
    }
}

/// A position among the batches of a group.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupCursor {
    /// The offset of the next entry.
    offset: usize,
    /// Records of the batches before it that are shown.
    records: u64,
    /// All records of the batches before it.
    read: u64,
}

impl GroupCursor {
    /// Records of the batches that were taken, without those that a lens hides.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("frame", &self.frame)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Entries::Hot(group) = &mut self.entries
            && let Some(group) = group.take()
        {
            self.core.hot.take_back(group);
        }
    }
}

impl Group {
    /// The place behind the group.
    #[must_use]
    pub fn until(&self) -> LanePlace {
        self.until
    }

    /// Records that were written in the group. Damage on the disk may leave fewer to be read.
    #[must_use]
    pub fn records(&self) -> u64 {
        u64::from(self.frame.records)
    }

    /// Bytes of the group's batches and envelopes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.frame.bytes as usize
    }

    /// When the first batch of the group was received, Unix nanoseconds; `None` if its envelope is damaged. The others came within
    /// moments.
    #[must_use]
    pub fn received_ns(&self) -> Option<u64> {
        let entries = match &self.entries {
            Entries::Hot(group) => group.as_ref().and_then(|group| group.bytes.get(GROUP_FRAME_BYTES..)),
            Entries::Read(memory, range) => memory.get(range.clone()),
        };
        Envelope::decode(entries?).map(|(envelope, _)| envelope.received_ns)
    }

    /// The same group, seen through a lens.
    #[must_use]
    pub fn with_lens(mut self, lens: Lens) -> Group {
        self.lens = Some(Box::new(lens));
        self
    }

    /// Calls `take` for each batch from the cursor on, and moves the cursor behind it. Damaged bytes are copied to the quarantine
    /// and skipped. Compressed batches are unpacked into `scratch`. A batch of which a lens hides records comes in runs of those that it
    /// shows; the cursor moves behind all of them.
    ///
    /// # Errors
    /// The first error of `take`; the cursor stays in front of that batch.
    pub fn try_for_each<E>(
        &self,
        cursor: &mut GroupCursor,
        scratch: &mut Scratch,
        mut take: impl FnMut(&Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Scratch { unpacked, changed, record } = scratch;
        let GroupCursor { offset, records, read } = cursor;
        let mut taken = |envelope: Envelope, batch: Batch<'_>| {
            let all = u64::from(batch.header.records);
            let source = self.sources.name(envelope.source).unwrap_or_default();
            let lane = self.until.lane;
            let shown = match &self.lens {
                None => take(&Entry { lane, source, envelope, batch, parser: None }).map(|()| all)?,
                Some(lens) => lens.show(*read, batch, (&mut *changed, &mut *record), &mut |batch| {
                    take(&Entry { lane, source, envelope, batch, parser: lens.parser() })
                })?,
            };
            *read += all;
            Ok(shown)
        };
        match &self.entries {
            Entries::Hot(group) => {
                let entries = group.as_ref().and_then(|group| group.bytes.get(GROUP_FRAME_BYTES..));
                let entries = entries.unwrap_or_default();
                while let Some((envelope, batch, end)) =
                    walk::written_entry(entries, *offset, self.frame.tag, unpacked)
                {
                    *records += taken(envelope, batch)?;
                    *offset = end;
                }
            }
            Entries::Read(memory, range) => {
                let entries = memory.get(range.clone()).unwrap_or_default();
                while let Some(found) = walk::step(entries, *offset, self.frame.tag, unpacked) {
                    *offset = match found {
                        Step::Entry { end, envelope, batch } => {
                            *records += taken(envelope, batch)?;
                            end
                        }
                        Step::Damage { end } => {
                            let position = self.frame.position + (GROUP_FRAME_BYTES + *offset) as u64;
                            quarantine::set_aside(&self.core, position, &entries[*offset..end]);
                            end
                        }
                    };
                }
            }
        }
        Ok(())
    }
}
