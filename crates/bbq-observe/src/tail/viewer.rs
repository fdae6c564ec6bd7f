//! A viewer: where it is in each lane, what it wants to see, and what waits for it.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bbq_format::{BatchMessage, BatchTexts};
use bbq_rules::{Attributes, FieldSet, Message};
use bbq_spec::unix_ns;
use bbq_spool::{Cursor, Entry, Group, GroupCursor, LanePlace, LaneReader, Next, Scratch, Spool};
use bbq_wire::batch::Output;
use hyper::body::Bytes;
use serde_json::json;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::filter::Filter;
use super::place::Place;
use super::query::{From, TailQuery};

/// Pieces that wait for a viewer, and their size when they are full: with the largest message, 20 MiB for all viewers.
pub(super) const PIECES_MAX: usize = 8;
const PIECE_BYTES: usize = 32 * 1024;
/// Of a message, what is shown.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// Messages between two looks at the clock, unless each may take long.
const CLOCK_MESSAGES: usize = 256;
/// A lane that is further ahead is read from memory alone: files are for what a sink has not read, and cost the disk.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Time between two lines about what was skipped.
const TELL_INTERVAL: Duration = Duration::from_secs(1);
/// A line feed shows that the server is there, and finds a viewer that is not.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// A viewer that reads nothing for this long is ended: it takes the place of another.
const STUCK_MAX: Duration = Duration::from_secs(60);
/// While nothing can be sent, no file is kept open for longer than this: a file that is open keeps its room on the disk.
const OPEN_MAX: Duration = Duration::from_secs(1);

pub(super) struct Viewer {
    filter: Filter,
    rate: u32,
    /// Messages that may be shown now; a second's worth is saved.
    allowance: f64,
    /// Whether it still reads what there was when it came. Nothing is skipped then, as long as it is there.
    is_behind: bool,
    /// Messages received before this are not wanted.
    since_ns: u64,
    spool: Weak<Spool>,
    readers: Vec<LaneReader>,
    /// The reader whose turn it is.
    turn: usize,
    /// Read in part: the group, the place of the next batch, and the messages of that batch that were read.
    part: Option<(Group, GroupCursor, usize)>,
    scratch: Scratch,
    text: Vec<u8>,
    /// For the expression.
    memory: bbq_rules::Scratch,
    out: Outlet,
    _place: Place,
}

/// What waits to be sent.
struct Outlet {
    pieces: mpsc::Sender<Bytes>,
    piece: Vec<u8>,
    /// Messages in the piece.
    lines: u64,
    /// Messages that were not looked at or not sent, since the last line about them.
    skipped: u64,
    /// Messages for which the expression was neither true nor false, since the last line about them, and why the first of them.
    failed: u64,
    failure: String,
    told: Instant,
    sent: Instant,
}

impl Viewer {
    pub(super) fn new(
        query: TailQuery,
        spool: &Arc<Spool>,
        pieces: mpsc::Sender<Bytes>,
        place: Place,
    ) -> Viewer {
        let since_ns = match query.from {
            From::Now | From::Beginning => 0,
            From::Ago(ago) => unix_ns().saturating_sub(u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX)),
        };
        let places = match query.from {
            From::Now => spool.ends(),
            From::Beginning => spool.beginnings(),
            From::Ago(_) => begin_at(spool, since_ns),
        };
        let now = Instant::now();
        Viewer {
            filter: query.filter,
            rate: query.rate,
            allowance: f64::from(query.rate),
            is_behind: query.from != From::Now,
            since_ns,
            spool: Arc::downgrade(spool),
            readers: spool.watchers(&cursor(places)),
            turn: 0,
            part: None,
            scratch: Scratch::default(),
            text: Vec::new(),
            memory: bbq_rules::Scratch::default(),
            out: Outlet {
                pieces,
                piece: Vec::new(),
                lines: 0,
                skipped: 0,
                failed: 0,
                failure: String::new(),
                told: now,
                sent: now,
            },
            _place: place,
        }
    }

    pub(super) fn is_behind(&self) -> bool {
        self.is_behind
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.out.pieces.is_closed() || now.saturating_duration_since(self.out.sent) > STUCK_MAX
    }

    /// Goes on in the spool of the present start: positions outlive a restart in place.
    pub(super) fn follow(&mut self, spool: &Arc<Spool>) {
        if !std::ptr::eq(self.spool.as_ptr(), Arc::as_ptr(spool)) {
            self.spool = Arc::downgrade(spool);
            self.reopen(spool);
        }
    }

    fn reopen(&mut self, spool: &Spool) {
        let places = self.readers.iter().map(LaneReader::place).collect();
        self.readers = spool.watchers(&cursor(places));
    }

    /// Reads and sends what there is, until the deadline.
    pub(super) fn work(&mut self, elapsed: Duration, deadline: Instant) {
        let more = elapsed.as_secs_f64() * f64::from(self.rate);
        self.allowance = (self.allowance + more).min(f64::from(self.rate));
        if self.is_behind {
            self.read_behind(deadline);
        } else {
            self.read_newest(deadline);
        }
        self.out.tell();
        self.out.flush(!self.is_behind);
    }

    /// Reads all that there is, as fast as it is taken.
    fn read_behind(&mut self, deadline: Instant) {
        if !self.out.has_room() {
            if self.out.sent.elapsed() > OPEN_MAX
                && let Some(spool) = self.spool.upgrade()
            {
                self.reopen(&spool);
            }
            return;
        }
        let mut idle = 0;
        while Instant::now() < deadline && self.out.has_room() {
            if let Some((group, mut cursor, mut read)) = self.part.take() {
                let is_done = self.examine(&group, &mut cursor, &mut read, deadline);
                if !is_done {
                    self.part = Some((group, cursor, read));
                }
                if !self.out.has_room() {
                    self.out.flush(false);
                }
                if !is_done {
                    continue;
                }
            }
            if idle == self.readers.len() {
                self.out.flush(false);
                // What cannot be sent yet is not skipped: it was asked for.
                self.is_behind = !self.out.piece.is_empty();
                self.scratch.trim();
                return;
            }
            self.turn = (self.turn + 1) % self.readers.len().max(1);
            let Some(reader) = self.readers.get_mut(self.turn) else { return };
            idle = match reader.next_group() {
                Ok(Next::Group(group)) => {
                    self.part = Some((group, GroupCursor::default(), 0));
                    0
                }
                Ok(Next::Lost(lost)) => {
                    self.out.skipped += lost.records;
                    0
                }
                Ok(Next::CaughtUp) => idle + 1,
                // The disk, or a shortage: what cannot be read now is skipped.
                Err(_) => {
                    self.out.skipped += reader.skip_to_end();
                    0
                }
            };
        }
    }

    /// Reads the newest groups of each lane, and skips what there is no time or no room for.
    fn read_newest(&mut self, deadline: Instant) {
        let count = self.readers.len();
        self.turn += 1;
        for place in 0..count {
            let index = (self.turn + place) % count;
            loop {
                let has_room = self.allowance >= 1.0 && Instant::now() < deadline;
                let reader = &mut self.readers[index];
                let next = match reader.unread_bytes() {
                    0 => break,
                    _ if !has_room => None,
                    1..=FILE_BYTES_MAX => reader.next_group().ok(),
                    _ => reader.next_in_memory(),
                };
                match next {
                    Some(Next::Group(group)) => {
                        let (mut cursor, mut read) = (GroupCursor::default(), 0);
                        self.examine(&group, &mut cursor, &mut read, deadline);
                        let seen = cursor.records() + read as u64;
                        self.out.skipped += group.records().saturating_sub(seen);
                    }
                    Some(Next::Lost(lost)) => self.out.skipped += lost.records,
                    Some(Next::CaughtUp) => break,
                    // There is no time, no room, or nothing that costs little.
                    None => {
                        self.out.skipped += reader.skip_to_end();
                        break;
                    }
                }
            }
        }
    }

    /// Looks at the messages of a group from `cursor` and `read` on. Returns whether it came to the end. It comes further each time.
    fn examine(
        &mut self,
        group: &Group,
        cursor: &mut GroupCursor,
        read: &mut usize,
        deadline: Instant,
    ) -> bool {
        let Viewer { filter, scratch, text, memory, out, allowance, is_behind, since_ns, .. } = self;
        let mut has_begun = false;
        let clock_messages = if filter.is_costly() { 1 } else { CLOCK_MESSAGES };
        let end = group.try_for_each(cursor, scratch, |entry: &Entry<'_>| {
            if !filter.may_want(entry) || entry.envelope.received_ns < *since_ns {
                *read = 0;
                return Ok(());
            }
            let entry = &filter.with_parser(entry);
            let source = entry.batch.header.source;
            let mut texts = None;
            let first = *read;
            for (index, looked) in looked_at(entry).enumerate().skip(first) {
                if (has_begun && index % clock_messages == 0 && Instant::now() >= deadline)
                    || if *is_behind { !out.has_room() } else { *allowance < 1.0 }
                {
                    *read = index;
                    return Err(());
                }
                has_begun = true;
                let BatchMessage { bytes, peer, fields, .. } = &looked;
                if filter.wants((source, *bytes), *peer, fields.as_ref(), text)
                    && out.counted(filter.is_true_of(|| of_rules(entry, &looked), memory))
                {
                    texts
                        .get_or_insert_with(|| BatchTexts::of(entry))
                        .append_json(BatchMessage { shown: shown(looked.bytes), ..looked }, &mut out.piece);
                    out.lines += 1;
                    *allowance -= 1.0;
                    if !*is_behind && !out.has_room() {
                        out.flush(true);
                    }
                }
            }
            *read = 0;
            Ok(())
        });
        // What was saved is for the newest.
        *allowance = allowance.max(0.0);
        end.is_ok()
    }
}

/// The messages of a batch.
fn looked_at<'a>(entry: &'a Entry<'a>) -> impl Iterator<Item = BatchMessage<'a>> {
    let mut details = entry.batch.details();
    let mut own_fields = entry.batch.record_fields();
    entry.numbered().map(move |(sequence, bytes, peer)| BatchMessage {
        sequence,
        bytes,
        shown: bytes,
        peer,
        detail: details.next(),
        fields: own_fields.next(),
    })
}

/// A message as an expression sees it.
fn of_rules<'a>(entry: &'a Entry<'a>, looked: &BatchMessage<'a>) -> Message<'a> {
    let (origin, header) = (entry.origin(), &entry.batch.header);
    let fields = entry.batch.fields();
    Message {
        record: looked.bytes,
        source: header.source,
        listener: origin.listener,
        peer: looked.peer,
        received_ns: origin.received_ns,
        stream: header.stream,
        sequence: looked.sequence,
        attributes: Attributes {
            fields: match looked.fields.clone() {
                Some(own) => FieldSet::Record(fields, own),
                None => FieldSet::Batch(fields),
            },
            output: looked.detail.map_or(Output::Unknown, |detail| detail.output),
        },
    }
}

/// The part of a message that is shown: whole characters.
fn shown(raw: &[u8]) -> &[u8] {
    if raw.len() <= MESSAGE_BYTES_MAX {
        return raw;
    }
    let cut = &raw[..MESSAGE_BYTES_MAX];
    match std::str::from_utf8(cut) {
        Err(error) if error.error_len().is_none() => &cut[..error.valid_up_to()],
        _ => cut,
    }
}

impl Outlet {
    fn has_room(&self) -> bool {
        self.piece.len() < PIECE_BYTES
    }

    /// Whether a message is shown for which the expression gave this. One for which it fails is, as rules keep it.
    fn counted(&mut self, is_true: Result<bool, String>) -> bool {
        is_true.unwrap_or_else(|failure| {
            if self.failed == 0 {
                self.failure = failure;
            }
            self.failed += 1;
            true
        })
    }

    /// Says how many messages were skipped, for how many the expression failed, or that the server is there.
    fn tell(&mut self) {
        let now = Instant::now();
        let is_due = now.saturating_duration_since(self.told) >= TELL_INTERVAL;
        let mut lines = String::new();
        if is_due && self.skipped > 0 {
            lines += &(json!({ "skipped": self.skipped }).to_string() + "\n");
        }
        if is_due && self.failed > 0 {
            lines += &(json!({ "where_failed": self.failed, "why": self.failure }).to_string() + "\n");
        }
        if !lines.is_empty() {
            self.told = now;
            if self.pieces.try_send(lines.into()).is_ok() {
                (self.skipped, self.failed, self.sent) = (0, 0, now);
            }
        } else if self.piece.is_empty() && now.saturating_duration_since(self.sent) >= SILENCE_MAX {
            let is_taken = self.pieces.try_send(Bytes::from_static(b"\n")).is_ok();
            if is_taken {
                self.sent = now;
            }
        }
    }

    /// Sends the piece if it can be sent. If not, it is skipped, or kept.
    fn flush(&mut self, may_skip: bool) {
        if self.piece.is_empty() {
            return;
        }
        match self.pieces.try_send(Bytes::copy_from_slice(&self.piece)) {
            Ok(()) => self.sent = Instant::now(),
            Err(TrySendError::Full(_)) if !may_skip => return,
            Err(_) => self.skipped += self.lines,
        }
        self.piece.clear();
        self.lines = 0;
        if self.piece.capacity() > 4 * PIECE_BYTES {
            self.piece = Vec::new();
        }
    }
}

fn cursor(places: Vec<LanePlace>) -> Cursor {
    Cursor { places, ..Cursor::default() }
}

/// In each lane the last segment that begins before that time. It is found by halves: a group of some segments is read.
fn begin_at(spool: &Spool, since_ns: u64) -> Vec<LanePlace> {
    let starts_before = |place: &LanePlace| {
        let reader = spool.watchers(&cursor(vec![*place])).into_iter();
        let Some(mut reader) = reader.into_iter().find(|reader| reader.place().lane == place.lane) else {
            return true;
        };
        let Ok(Next::Group(group)) = reader.next_group() else { return true };
        let mut first = None;
        // The first batch is enough.
        let _first_only = group.try_for_each(&mut GroupCursor::default(), &mut Scratch::default(), |entry| {
            first = Some(entry.envelope.received_ns);
            Err(())
        });
        first.is_none_or(|received| received < since_ns)
    };
    let first_of = |places: Vec<LanePlace>| {
        let behind = places.partition_point(starts_before);
        places.get(behind.saturating_sub(1)).copied()
    };
    spool.segment_places().into_iter().filter_map(first_of).collect()
}
