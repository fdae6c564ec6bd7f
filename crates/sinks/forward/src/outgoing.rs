//! A group on its way to the next server, batch by batch.

use bbq_sink::PendingGroup;
use bbq_spool::{Entry, GroupCursor, Scratch};
use bbq_wire::batch::Origin;
use bbq_wire::{Batch, Peer, Span, StreamId};

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
    let records = records_max.min(u64::from(header.records) - skip);
    let first = header.first_sequence + skip;
    let numbers = Span { first, last: first + records - 1 };
    append_relayed_part(&entry.batch, numbers, &entry.origin(), entry.envelope.peer, out);
    records
}

/// Appends the records with these numbers as the next server would get the whole batch: with all that is known of them. The first part has
/// the statement about the numbers before it.
fn append_relayed_part(batch: &Batch<'_>, numbers: Span, here: &Origin<'_>, peer: Peer, out: &mut Vec<u8>) {
    let mut part = Vec::new();
    batch.append_part(numbers, &mut part);
    let given_up = batch.given_up();
    if given_up > 0 && numbers.first == batch.header.first_sequence {
        let without = std::mem::take(&mut part);
        // It was built here, so it can be read.
        if let Ok(without) = Batch::verified_before(&without, &mut Vec::new()) {
            without.append_with_given_up(given_up, &mut Vec::new(), &mut part);
        }
    }
    if let Ok(part) = Batch::verified_before(&part, &mut Vec::new()) {
        part.append_relayed(here, peer, &mut Vec::new(), out);
    }
}

#[cfg(test)]
mod tests {
    use bbq_wire::batch::{BatchIdentity, BatchLimits, Detail, Output};
    use bbq_wire::{BatchBuilder, Compression, SourceKind};

    use super::*;

    /// Otherwise messages of readers lose their fields where the next server refuses one of them.
    #[test]
    fn a_part_has_all_that_the_whole_batch_has() {
        let mut builder = BatchBuilder::new();
        builder.set_fields([("k8s.pod.name", "web-0")].into_iter());
        builder.set_given_up(10);
        for number in 11..15_u64 {
            builder.push(number.to_string().as_bytes());
            builder.set_detail(Detail { time_ns: number, output: Output::Stderr });
            builder.set_record_fields([("unit", number.to_string().as_str())].into_iter());
        }
        let identity = BatchIdentity {
            stream: StreamId([7; 16]),
            first_sequence: 11,
            base_time_ns: 0,
            source: SourceKind::Lines,
            compression: Compression::None,
        };
        let bytes = builder.finish(&identity).unwrap().to_vec();
        let mut unpacked = Vec::new();
        let whole = Batch::verify(&bytes, BatchLimits::FORMAT, &mut unpacked).unwrap();
        let here = Origin { received_ns: 9, listener: "pods" };
        let peer = Peer::Process { pid: 1, uid: 2, gid: 3 };
        for (first, last, given_up) in [(11, 12, 10), (13, 14, 0), (12, 12, 0)] {
            let mut part = Vec::new();
            append_relayed_part(&whole, Span { first, last }, &here, peer, &mut part);
            let mut unpacked = Vec::new();
            let part = Batch::verify(&part, BatchLimits::FORMAT, &mut unpacked).unwrap();
            let numbers = first..=last;
            let records: Vec<String> = numbers.clone().map(|number| number.to_string()).collect();
            assert!(part.records().eq(records.iter().map(String::as_bytes)));
            assert!(part.fields().eq([("k8s.pod.name", "web-0")]));
            assert!(
                part.details()
                    .map(|detail| (detail.time_ns, detail.output))
                    .eq(numbers.clone().map(|number| (number, Output::Stderr)))
            );
            let units = part.record_fields().filter_map(|mut fields| fields.next());
            assert!(units.eq(records.iter().map(|unit| ("unit", unit.as_str()))));
            assert_eq!((part.origin(), part.given_up()), (Some(here), given_up));
            assert!(part.peers().eq([(part.header.records, peer)]));
        }
    }
}
