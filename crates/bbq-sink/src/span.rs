//! A span on its way to a destination that takes messages in parts, such as request bodies. A span is some groups that were submitted one
//! after the other: a part may have messages of several of them, so that many small groups are one request.
//!
//! Invariant: the settled messages of a span are its first messages, even if the delivery is given up in the middle.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bbq_format::Formatter;
use bbq_spool::Scratch;

use super::delivery::{Part, PartLimits, PendingGroup, Place};

/// The delivery of a span.
///
/// It cuts a span of one group at the same places whenever the same messages are refused, also when it begins in the middle of the group
/// after a restart: by bytes, from the beginning of the group on, into pieces; a piece that is refused into halves, at powers of two after
/// its beginning. Which groups are a span depends on what had come, so a destination that knows messages by their part gets spans of one
/// group.
pub(crate) struct Delivery {
    groups: Vec<Arc<PendingGroup>>,
    /// The first group that is not settled, and the messages of the span before it.
    current: usize,
    before: u64,
    /// Most messages of the next part: fewer, after the destination has refused a part that begins at the same place. Errors do not change
    /// it: otherwise a destination that fails now and then would never get a part of one message.
    records_max: u64,
    /// The one that had the last part.
    piece: Piece,
    /// Since when the destination fails on the next message, alone.
    failing_since: Option<Instant>,
    scratch: Scratch,
}

/// A position among the messages of a span.
#[derive(Clone, Copy, Debug, Default)]
struct SpanPlace {
    group: usize,
    /// How many messages of the span come before the group.
    before: u64,
    place: Place,
}

/// Messages of a span that are a part unless some of them are refused.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    /// How many messages of the span come before it.
    first: u64,
    end: SpanPlace,
}

/// A part of a span, and what it has of each group.
pub(crate) struct SpanPart {
    /// What is sent.
    pub(crate) part: Part,
    shares: Vec<Share>,
    end: SpanPlace,
}

/// What a part has of a group.
struct Share {
    group: usize,
    records: u64,
    end: Place,
    /// Nothing of the group follows.
    is_last: bool,
}

impl SpanPlace {
    /// How many messages of the span come before.
    fn done(&self) -> u64 {
        self.before + self.place.done()
    }
}

impl Delivery {
    /// A delivery of these groups, of which there is at least one.
    pub(crate) fn new(groups: Vec<Arc<PendingGroup>>) -> Delivery {
        Delivery {
            groups,
            current: 0,
            before: 0,
            records_max: u64::MAX,
            piece: Piece::default(),
            failing_since: None,
            scratch: Scratch::default(),
        }
    }

    /// Formats the next messages, at most `bytes_max` bytes unless one message is larger. Returns `None` when everything is
    /// settled.
    pub(crate) fn next_part(&mut self, formatter: &mut Formatter, bytes_max: usize) -> Option<SpanPart> {
        let place = self.place();
        self.move_piece(place, formatter, bytes_max);
        let limits = PartLimits { records: self.records_max.min(self.half(place)), bytes: bytes_max };
        let part = self.fill(place, limits, formatter);
        if self.piece.end.done() == place.done() {
            self.piece = Piece { first: place.done(), end: part.end };
        }
        if part.part.records > 0 {
            return Some(part);
        }
        // Nothing is left, or what is left is damaged.
        self.settle(&part, |_, _| {});
        None
    }

    /// Whether the destination has failed on the next message for so long, and on nothing else meanwhile.
    pub(crate) fn has_failed_for(&mut self, time: Duration, now: Instant) -> bool {
        now.saturating_duration_since(*self.failing_since.get_or_insert(now)) >= time
    }

    /// The destination has not failed on the next message, or not on it alone.
    pub(crate) fn forget_failure(&mut self) {
        self.failing_since = None;
    }

    /// The same, unless others may yet say what the message is worth.
    pub(crate) fn forget_failure_unless(&mut self, has_others: bool) {
        if !has_others {
            self.forget_failure();
        }
    }

    /// Where the messages begin that are not settled.
    fn place(&self) -> SpanPlace {
        let place = self.groups[self.current].place();
        SpanPlace { group: self.current, before: self.before, place }
    }

    /// Formats the messages after `from`, as far as the limits allow.
    fn fill(&mut self, from: SpanPlace, limits: PartLimits, formatter: &mut Formatter) -> SpanPart {
        let mut part = SpanPart { part: Part::new(from.place), shares: Vec::new(), end: from };
        loop {
            let SpanPlace { group, before, place } = part.end;
            let records_before = part.part.records;
            let is_last =
                self.groups[group].fill(&mut part.part, place, limits, formatter, &mut self.scratch);
            let (end, records) = (part.part.behind, part.part.records - records_before);
            part.end.place = end;
            if records > 0 || is_last {
                part.shares.push(Share { group, records, end, is_last });
            }
            if !is_last || group + 1 == self.groups.len() {
                return part;
            }
            let (group, before) = (group + 1, before + end.done());
            part.end = SpanPlace { group, before, place: self.groups[group].place() };
        }
    }

    /// Goes on to the piece that `place` is in, or that begins there.
    fn move_piece(&mut self, place: SpanPlace, formatter: &mut Formatter, bytes_max: usize) {
        let limits = PartLimits { records: u64::MAX, bytes: bytes_max };
        while self.piece.end.done() < place.done() {
            let first = self.piece.end.done();
            let next = self.fill(self.piece.end, limits, formatter);
            // Damage has taken what was settled.
            let end = if next.part.records == 0 { place } else { next.end };
            self.piece = Piece { first, end };
        }
    }

    /// Most messages of a part that begins at `place`, in its piece.
    fn half(&self, place: SpanPlace) -> u64 {
        let (done, end) = (place.done(), self.piece.end.done());
        let (offset, left) = (done - self.piece.first, end - done);
        match (offset, left) {
            // The piece is not known yet: it is as long as the part gets.
            (_, 0) => u64::MAX,
            (0, left) => left,
            (offset, left) => left.min(1 << offset.trailing_zeros()),
        }
    }

    /// Notes that the destination has the messages of a part.
    pub(crate) fn confirm(&mut self, part: &SpanPart) {
        self.settle(part, |_, _| {});
    }

    /// Notes that the destination refuses a part of several messages: the next part has about half as many.
    pub(crate) fn halve(&mut self, part: &SpanPart) {
        self.records_max = (part.part.records.next_power_of_two() / 2).max(1);
        self.forget_failure();
    }

    /// Notes that the destination refuses the messages of a part for good. `reason` and `why` are as in [`PendingGroup::reject_next`].
    pub(crate) fn reject(&mut self, part: &SpanPart, reason: &'static str, why: &str) {
        self.settle(part, |group, records| group.reject(records, reason, why.to_owned()));
    }

    /// Notes that the destination has the messages of a part but for `rejected` ones, which it refuses for good. Nobody knows which.
    pub(crate) fn confirm_partly(&mut self, part: &SpanPart, rejected: u64, reason: &'static str) {
        let mut left = rejected;
        self.settle(part, |group, records| {
            let of_group = left.min(records);
            left -= of_group;
            group.count_rejected(of_group, reason);
        });
    }

    /// Settles a part. `note` is called for each group that has some of its messages, with their number, before they are settled.
    fn settle(&mut self, part: &SpanPart, mut note: impl FnMut(&PendingGroup, u64)) {
        self.records_max = u64::MAX;
        self.forget_failure();
        for share in &part.shares {
            let group = &self.groups[share.group];
            if share.records > 0 {
                note(group, share.records);
            }
            group.confirm_until(share.end);
            if share.is_last {
                group.end();
            }
        }
        (self.current, self.before) = (part.end.group, part.end.before);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    use bbq_format::Format;
    use bbq_spool::{Cursor, DiskStorage, Envelope, NameMark, Next, Spool, SpoolOptions, Step, SteppedTime};
    use bbq_wire::batch::BatchIdentity;
    use bbq_wire::{Batch, BatchBuilder, Compression, Peer, SourceKind, StreamId};

    use super::super::delivery::Range;
    use super::*;

    /// Messages of the group; some are longer than a part.
    const MESSAGES: u64 = 300;
    const BYTES_MAX: usize = 1000;

    /// A spool in a directory with several batches, of two streams in turns, and so many of them in a group.
    fn spool(directory: &Path, batches: u64) -> Spool {
        let options = SpoolOptions {
            segment_bytes: 1024 * 1024,
            ..SpoolOptions::new(directory.to_owned(), 1, vec!["test".into()])
        };
        let spool =
            Spool::open_stepped(Arc::new(DiskStorage), &options, &Arc::new(SteppedTime::default())).unwrap();
        for batch in 0..MESSAGES / 10 {
            let mut builder = BatchBuilder::new();
            for number in batch * 10..(batch + 1) * 10 {
                let bytes = if number % 97 == 50 { 3000 } else { 10 + number % 30 };
                builder.push(&vec![b'x'; bytes as usize]);
            }
            let identity = BatchIdentity {
                stream: StreamId([(batch / 3 % 2) as u8; 16]),
                first_sequence: 1 + batch * 10,
                base_time_ns: 0,
                source: SourceKind::Bbq,
                compression: Compression::None,
            };
            let bytes = builder.finish(&identity).unwrap();
            let header = Batch::peek(bytes).unwrap().unwrap();
            let envelope =
                Envelope { source: 0, received_ns: 1, peer: Peer::Unnamed, name_mark: NameMark::NOBODY };
            let is_last = (batch + 1) % batches == 0;
            spool.lanes()[0].append(&envelope, &header, bytes, is_last).unwrap();
            while is_last && spool.lanes()[0].durable().records < (batch + 1) * 10 {
                assert!(!matches!(spool.step(0), Step::Waits(None)), "the lane waits");
            }
        }
        spool
    }

    /// The groups of the spool, the first `begun` messages of the first of them settled.
    fn groups(spool: &Spool, begun: u64, progress: &Arc<AtomicU64>) -> Vec<Arc<PendingGroup>> {
        let mut readers = spool.readers(&Cursor::default());
        let mut groups = Vec::new();
        while let Next::Group(group) = readers[0].next_group().unwrap() {
            let begun = if groups.is_empty() { begun } else { 0 };
            groups.push(Arc::new(PendingGroup::new(group, begun, Arc::clone(progress))));
        }
        groups
    }

    /// Delivers what is behind the first `begun` messages to a destination that refuses parts with these messages. Returns what was sent
    /// and taken: the number of its first message, and its ranges.
    fn deliver(spool: &Spool, begun: u64, refused: &[u64]) -> Vec<(u64, Vec<Range>)> {
        let mut delivery = Delivery::new(groups(spool, begun, &Arc::default()));
        let (mut formatter, mut at, mut taken) = (Formatter::new(Format::Raw), begun, Vec::new());
        while let Some(sent) = delivery.next_part(&mut formatter, BYTES_MAX) {
            let part = &sent.part;
            let is_refused = refused.iter().any(|number| (at..at + part.records).contains(number));
            if is_refused && part.records > 1 {
                delivery.halve(&sent);
                continue;
            }
            match is_refused {
                true => delivery.reject(&sent, "refused", ""),
                false => delivery.confirm(&sent),
            }
            assert_eq!(part.ranges.iter().map(|range| range.records).sum::<u64>(), part.records);
            at += part.records;
            taken.push((at - part.records, sent.part.ranges));
        }
        assert_eq!(at, MESSAGES);
        taken
    }

    /// It may be down for an hour, or take others, in between.
    #[test]
    fn a_message_on_which_a_destination_fails_has_its_whole_time() {
        let directory = tempfile::tempdir().unwrap();
        let spool = spool(directory.path(), MESSAGES / 10);
        let mut delivery = Delivery::new(groups(&spool, 0, &Arc::default()));
        let (start, minute) = (Instant::now(), Duration::from_secs(60));
        let fails = |delivery: &mut Delivery, seconds: [u64; 3]| {
            seconds.map(|at| delivery.has_failed_for(minute, start + Duration::from_secs(at)))
        };
        assert_eq!(fails(&mut delivery, [0, 59, 60]), [false, false, true]);
        delivery.forget_failure();
        assert_eq!(fails(&mut delivery, [3600, 3659, 3660]), [false, false, true]);
        let part = delivery.next_part(&mut Formatter::new(Format::Raw), BYTES_MAX).unwrap();
        delivery.confirm(&part);
        assert_eq!(fails(&mut delivery, [7200, 7259, 7260]), [false, false, true]);
        let part = delivery.next_part(&mut Formatter::new(Format::Raw), BYTES_MAX).unwrap();
        delivery.halve(&part);
        assert_eq!(fails(&mut delivery, [9000, 9059, 9060]), [false, false, true]);
    }

    #[test]
    fn a_group_is_cut_alike_wherever_a_delivery_begins() {
        let directory = tempfile::tempdir().unwrap();
        let spool = spool(directory.path(), MESSAGES / 10);
        for refused in
            [&[][..], &[0], &[7, 8, 50, 130, 131, 299], &[50, 147, 244], &(0..MESSAGES).collect::<Vec<_>>()]
        {
            let parts = deliver(&spool, 0, refused);
            assert!(parts.len() > 10, "{}", parts.len());
            for (index, (begun, _)) in parts.iter().enumerate() {
                assert_eq!(
                    deliver(&spool, *begun, refused),
                    parts[index..],
                    "from {begun} on, without {refused:?}"
                );
            }
        }
    }

    #[test]
    fn a_part_has_messages_of_several_groups_and_each_is_settled_when_all_of_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let spool = spool(directory.path(), 1);
        for begun in [0, 7] {
            let progress = Arc::default();
            let groups = groups(&spool, begun, &progress);
            assert_eq!(groups.len() as u64, MESSAGES / 10);
            let mut delivery = Delivery::new(groups.clone());
            let (mut formatter, mut at, mut parts) = (Formatter::new(Format::Raw), begun, 0);
            // 25 is refused, and of the part with 60 one message is, nobody knows which.
            while let Some(sent) = delivery.next_part(&mut formatter, BYTES_MAX) {
                let numbers = at..at + sent.part.records;
                if numbers.contains(&25) && sent.part.records > 1 {
                    delivery.halve(&sent);
                    continue;
                }
                match at {
                    25 => delivery.reject(&sent, "refused", "why"),
                    _ => delivery.confirm_partly(&sent, u64::from(numbers.contains(&60)), "some"),
                }
                (at, parts) = (numbers.end, parts + 1);
                for (number, group) in groups.iter().enumerate() {
                    assert_eq!(group.is_whole(), (number as u64 + 1) * 10 <= at, "group {number} at {at}");
                }
            }
            assert_eq!((at, progress.load(Ordering::Relaxed)), (MESSAGES, MESSAGES - begun));
            assert!(parts < MESSAGES / 10, "{parts} parts");
            let settled: Vec<_> = groups.iter().map(|group| group.settled()).collect();
            assert_eq!(settled.iter().map(|settled| settled.delivered).sum::<u64>(), MESSAGES - 2);
            assert_eq!(settled[2].rejected, [("refused", 1)]);
            assert_eq!(settled[2].letters.len(), 1);
            assert_eq!(settled.iter().flat_map(|settled| &settled.rejected).count(), 2);
        }
    }

    #[test]
    fn a_message_of_a_span_is_in_one_part_wherever_a_refusal_is() {
        let directory = tempfile::tempdir().unwrap();
        let spool = spool(directory.path(), 3);
        for refused in [&[][..], &[0, 29, 30], &[299], &(0..MESSAGES).collect::<Vec<_>>()] {
            let ranges = deliver(&spool, 0, refused).into_iter().flat_map(|(_, ranges)| ranges);
            assert_eq!(ranges.map(|range| range.records).sum::<u64>(), MESSAGES);
        }
    }
}
