//! A group on its way to the next server, batch by batch.

use bbq_sink::PendingGroup;
use bbq_spool::{Entry, GroupCursor, Scratch};
use bbq_wire::batch::BatchIdentity;
use bbq_wire::{BatchBuilder, Compression, StreamId};

use super::held::HeldNumbers;

/// The memory for a body is kept up to this size. Clients make batches of about 256 KiB.
const BODY_BYTES_KEPT_MAX: usize = 1024 * 1024;

/// The limits of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteLimits {
    /// No further batch is begun once the output has this many bytes.
    pub(super) bytes: usize,
    /// Batches with more records are sent in parts, one in each write. `u64::MAX` to send every batch as it came.
    pub(super) records: u64,
}

/// A limit of the output is reached.
struct Full;

/// A batch that was written, or a part of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) records: u64,
    pub(super) stream: StreamId,
    /// The number of its first record.
    pub(super) first: u64,
    pub(super) received_ns: u64,
    /// Where it ends in the output.
    pub(super) end: usize,
    /// It is behind a batch of its group that is held: its acknowledgement settles nothing.
    pub(super) is_behind_held: bool,
}

/// A group, with how much of it is written and how much is settled.
pub(super) struct Outgoing {
    pub(super) pending: PendingGroup,
    /// Before the next batch to write.
    cursor: GroupCursor,
    /// How many records are written or settled; these are the first ones that can be read.
    written: u64,
    is_written: bool,
    /// A batch of it was passed over.
    has_held: bool,
    /// Batches that are written and not acknowledged.
    pub(super) unacknowledged: usize,
    /// Which group of the link it is.
    pub(super) number: u64,
}

/// Buffers that all groups share.
#[derive(Default)]
pub(super) struct Buffers {
    unpacked: Scratch,
    body: Vec<u8>,
}

impl Buffers {
    /// Gives back the memory that a very large batch took.
    pub(super) fn trim(&mut self) {
        self.unpacked.trim();
        if self.body.capacity() > BODY_BYTES_KEPT_MAX {
            self.body = Vec::new();
        }
    }
}

impl Outgoing {
    pub(super) fn new(pending: PendingGroup, number: u64) -> Outgoing {
        let written = pending.done();
        Outgoing {
            pending,
            cursor: GroupCursor::default(),
            written,
            is_written: false,
            has_held: false,
            unacknowledged: 0,
            number,
        }
    }

    /// Starts over on a new connection, after the settled records.
    pub(super) fn rewind(&mut self) {
        self.cursor = GroupCursor::default();
        self.written = self.pending.done();
        (self.is_written, self.has_held) = (false, false);
        self.unacknowledged = 0;
    }

    /// Whether every batch that can be read is acknowledged, but for those that are held.
    pub(super) fn is_done(&self) -> bool {
        self.is_written && self.unacknowledged == 0
    }

    /// Whether a batch of it was passed over since it was written.
    pub(super) fn has_held(&self) -> bool {
        self.has_held
    }

    /// Appends the next batches to `out` but for those that are held, and calls `note` for each. Returns whether the group is written to its
    /// end.
    pub(super) fn write(
        &mut self,
        limits: WriteLimits,
        held: &HeldNumbers,
        buffers: &mut Buffers,
        out: &mut Vec<u8>,
        mut note: impl FnMut(Written),
    ) -> bool {
        let Outgoing { pending, cursor, written, unacknowledged, has_held, .. } = self;
        let (mut at, mut is_full) = (cursor.records(), false);
        let Buffers { unpacked, body } = buffers;
        let result = pending.group().try_for_each(cursor, unpacked, |entry| {
            let records = u64::from(entry.batch.header.records);
            let skip = written.saturating_sub(at).min(records);
            if skip == records {
                at += records;
                return Ok(());
            }
            if held.has(&entry.batch.header) {
                *has_held = true;
                *written += records - skip;
                at += records;
                return Ok(());
            }
            if is_full {
                return Err(Full);
            }
            let now = if skip == 0 && records <= limits.records {
                entry.batch.append_relayed(&entry.origin(), entry.envelope.peer, body, out);
                records
            } else {
                append_part(entry, skip, limits.records.min(records - skip), out)
            };
            note(Written {
                records: now,
                stream: entry.batch.header.stream,
                first: entry.batch.header.first_sequence + skip,
                received_ns: entry.envelope.received_ns,
                end: out.len(),
                is_behind_held: *has_held,
            });
            *unacknowledged += 1;
            *written += now;
            is_full = out.len() >= limits.bytes || limits.records < u64::MAX;
            if skip + now < records {
                return Err(Full);
            }
            at += records;
            Ok(())
        });
        self.is_written = result.is_ok();
        self.is_written
    }
}

/// Appends a batch of at most `records_max` records of the entry after its first `skip` records. Returns how many it has.
fn append_part(entry: &Entry<'_>, skip: u64, records_max: u64, out: &mut Vec<u8>) -> u64 {
    let header = &entry.batch.header;
    let as_count = |number| usize::try_from(number).unwrap_or(usize::MAX);
    let mut builder = BatchBuilder::new();
    builder.set_origin(&entry.origin());
    let records = entry.batch.records().zip(entry.peers()).skip(as_count(skip)).take(as_count(records_max));
    for (record, peer) in records {
        if !builder.has_room(record.len()) {
            break;
        }
        builder.push_from(record, peer);
    }
    let identity = BatchIdentity {
        stream: header.stream,
        first_sequence: header.first_sequence + skip,
        base_time_ns: header.base_time_ns,
        source: header.source,
        compression: Compression::None,
    };
    out.extend_from_slice(builder.finish(&identity).unwrap_or_default());
    u64::from(builder.records())
}
