//! The groups that were submitted to the sink, in their order, and how far they are written to the present run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bbq_format::{Format, Formatter};
use bbq_sink::{PartLimits, PendingGroup, Place, REFUSED, Settled};
use bbq_spool::{Group, LanePlace, Scratch};

/// Messages that are formatted at a time: as much as a client puts into a batch, which is unpacked for each part.
const PART_BYTES: usize = 256 * 1024;
/// Most bytes of groups that are in memory, unless one group is larger.
const GROUPS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The text of a part that is larger is given back once it is written.
const TEXT_BYTES_KEPT_MAX: usize = 1024 * 1024;

struct QueuedGroup {
    pending: PendingGroup,
    /// Behind the messages that are formatted for this run.
    place: Place,
    /// How many messages are formatted for this run, and how many of these are confirmed.
    formatted: u64,
    confirmed: u64,
    /// No more are left to format.
    is_formatted: bool,
}

/// Formatted messages on their way to the command.
#[derive(Default)]
struct Outgoing {
    text: Vec<u8>,
    /// Where each message ends.
    ends: Vec<usize>,
    /// Bytes that are in the pipe.
    written: usize,
}

/// See the module.
pub(super) struct Queue {
    groups: VecDeque<QueuedGroup>,
    /// The first group that is not formatted to its end.
    next: usize,
    bytes: usize,
    outgoing: Outgoing,
    /// This run gets nothing more.
    is_cut: bool,
    /// This run gets so many messages, and has got so many.
    limit: u64,
    given: u64,
    /// More messages are behind the limit.
    is_limited: bool,
    formatter: Formatter,
    scratch: Scratch,
    /// How many messages were confirmed.
    progress: Arc<AtomicU64>,
    settled: Vec<Settled>,
}

impl Queue {
    pub(super) fn new(format: Format) -> Queue {
        Queue {
            groups: VecDeque::new(),
            next: 0,
            bytes: 0,
            outgoing: Outgoing::default(),
            is_cut: false,
            limit: u64::MAX,
            given: 0,
            is_limited: false,
            formatter: Formatter::new(format),
            scratch: Scratch::default(),
            progress: Arc::default(),
            settled: Vec::new(),
        }
    }

    /// Adds a group whose first `begun` messages are settled.
    pub(super) fn add(&mut self, group: Group, begun: u64) {
        self.bytes += group.bytes();
        let pending = PendingGroup::new(group, begun, Arc::clone(&self.progress));
        let place = pending.place();
        self.groups.push_back(QueuedGroup {
            pending,
            place,
            formatted: 0,
            confirmed: 0,
            is_formatted: false,
        });
    }

    /// Whether another group may be added.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < GROUPS_BYTES_MAX
    }

    /// Whether every group is settled.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// How many messages were confirmed.
    pub(super) fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    /// The bytes to write next. Empty until [`Queue::format_next`] has found more.
    pub(super) fn outgoing(&self) -> &[u8] {
        &self.outgoing.text[self.outgoing.written..]
    }

    /// Whether something is left to write to this run.
    pub(super) fn has_more(&self) -> bool {
        !self.outgoing().is_empty() || (!self.is_cut && !self.is_limited && self.next < self.groups.len())
    }

    /// Notes that outgoing bytes are written.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.outgoing.written += bytes;
        if self.outgoing().is_empty() {
            self.outgoing.clear();
        }
    }

    /// Formats more once everything outgoing is written, and calls `note` with each message. Returns whether there was more.
    pub(super) fn format_next(&mut self, mut note: impl FnMut(&[u8])) -> bool {
        let left = self.limit.saturating_sub(self.given);
        // At the limit a message is looked for, and left: a group without one behind the limit is at its end.
        let limits = PartLimits { records: left.max(1), bytes: PART_BYTES };
        while !self.is_cut
            && !self.is_limited
            && let Some(group) = self.groups.get_mut(self.next)
        {
            let part = group.pending.part(group.place, limits, &mut self.formatter, &mut self.scratch);
            if part.records > 0 && left == 0 {
                self.is_limited = true;
                break;
            }
            group.place = part.behind;
            if part.records > 0 {
                group.formatted += part.records;
                self.given += part.records;
                let mut begin = 0;
                for end in &part.ends {
                    note(&part.text[begin..*end]);
                    begin = *end;
                }
                self.outgoing = Outgoing { text: part.text, ends: part.ends, written: 0 };
                return true;
            }
            group.is_formatted = true;
            self.next += 1;
        }
        self.settle();
        false
    }

    /// How many messages this run has got, or will get once the outgoing ones are written.
    pub(super) fn given(&self) -> u64 {
        self.given
    }

    /// Whether this run has got all messages that it is to get, and it is known whether more follow.
    pub(super) fn is_at_limit(&self) -> bool {
        self.given >= self.limit && !self.has_more()
    }

    /// Notes that the next messages that were formatted for this run are delivered.
    pub(super) fn confirm(&mut self, messages: u64) {
        let mut left = messages;
        for group in &mut self.groups {
            let of_group = left.min(group.formatted - group.confirmed);
            if of_group > 0 {
                group.pending.confirm_next(of_group, group.place.received_ns);
                group.confirmed += of_group;
                left -= of_group;
            }
            if left == 0 {
                break;
            }
        }
        self.settle();
    }

    /// Notes that the next message that was formatted for this run is rejected. It must be the only one that is not confirmed.
    pub(super) fn reject(&mut self, why: &str) {
        let group = self.groups.iter_mut().find(|group| group.formatted > group.confirmed);
        if let Some(QueuedGroup { pending, place, confirmed, .. }) = group {
            pending.reject_next(1, place.received_ns, REFUSED, why.to_owned());
            *confirmed += 1;
        }
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(first) = self.groups.front()
            && first.is_formatted
            && first.confirmed == first.formatted
        {
            self.settled.push(first.pending.settled());
            self.bytes -= first.pending.group().bytes();
            self.groups.pop_front();
            self.next -= 1;
        }
    }

    /// Whether [`Queue::take_settled`] has something to take.
    pub(super) fn has_settled(&self) -> bool {
        !self.settled.is_empty()
    }

    /// The groups that were settled since the last call.
    pub(super) fn take_settled(&mut self, settled: &mut Vec<Settled>) {
        settled.append(&mut self.settled);
    }

    /// What is settled of a group.
    pub(super) fn settled_part(&self, until: LanePlace) -> Option<Settled> {
        let group = self.groups.iter().find(|group| group.pending.until() == until)?;
        group.pending.has_moved().then(|| group.pending.settled())
    }

    /// Writes nothing more to this run than the rest of a message that is partly written.
    pub(super) fn cut(&mut self) {
        self.is_cut = true;
        let Outgoing { text, ends, written } = &mut self.outgoing;
        if *written == 0 {
            self.outgoing.clear();
        } else if let Some(end) = ends.iter().find(|end| **end >= *written) {
            text.truncate(*end);
        }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The next run gets what is not confirmed, so many messages of it.
    pub(super) fn rewind(&mut self, limit: u64) {
        for group in &mut self.groups {
            group.place = group.pending.place();
            (group.formatted, group.confirmed, group.is_formatted) = (0, 0, false);
        }
        (self.next, self.is_cut) = (0, false);
        (self.limit, self.given, self.is_limited) = (limit, 0, false);
        self.outgoing.clear();
    }

    /// Forgets all groups.
    pub(super) fn clear(&mut self) {
        self.groups.clear();
        self.settled.clear();
        self.bytes = 0;
        self.rewind(self.limit);
    }

    /// Gives back memory that a large message or batch took.
    pub(super) fn trim(&mut self) {
        self.scratch.trim();
        if self.outgoing.text.is_empty() && self.outgoing.text.capacity() > TEXT_BYTES_KEPT_MAX {
            self.outgoing.text = Vec::new();
        }
    }
}

impl Outgoing {
    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.written = 0;
    }
}
