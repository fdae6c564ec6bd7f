//! What all links of a sink share: who writes, and how far the stream is as this sink knows it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bbq_sink::{Doubts, Losses, Position, Positions, Refused, TooLarge};
use bbq_spool::LanePlace;

use super::forbidden::Forbidden;

/// What the cursor remembers.
///
/// ```text
/// nats <id> <when the stream was made, or -> <place of the last progress in the stream> <positions> / <kept> / <format> <payload>
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remembered {
    /// 16 hexadecimal digits, of the sink and its data directory: the last token of the subject of its progress.
    pub(super) id: String,
    pub(super) seen: Seen,
    /// Behind the last groups whose rejected messages are dead letters.
    pub(super) kept: Positions,
    pub(super) judged: Judged,
}

/// The largest payload that a server took since groups are kept: larger messages of these groups are dead letters, and others may have been
/// published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    /// In this format; empty if an older bbq wrote none.
    format: String,
    payload: usize,
}

/// How far the stream was when the server last told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// When the stream was made; empty if no server has told yet.
    pub(super) created: String,
    /// The place of the last progress in the stream; 0 if there is none.
    pub(super) sequence: u64,
    pub(super) positions: Positions,
}

/// See the module.
pub(super) struct Shared {
    pub(super) id: String,
    /// Another one each time that the sink is opened, so that whoever wrote before is fenced off.
    pub(super) writer: String,
    pub(super) doubts: Arc<Doubts>,
    pub(super) too_large: TooLarge,
    forbidden: Mutex<Forbidden>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: Seen,
    kept: Positions,
    /// Behind the last groups that the driver has. A commit keeps their rejected messages.
    handed_over: Positions,
    /// The place of the first progress of this writer in the stream; `None` if it is to be written.
    begun_at: Option<u64>,
    /// Whether the server is known to be there.
    is_connected: bool,
    /// Whether it has no atomic batches.
    is_windowed: bool,
    losses: Losses,
    /// What the cursor has passed, since the sink was opened.
    passed: Vec<LanePlace>,
    /// How often the cursor was written.
    commits: u64,
    /// Of a batch, as links have learned of the server.
    batch_bytes: Option<usize>,
    judged: Judged,
    /// Whether this is true for all groups that are kept.
    is_judged_known: bool,
}

impl Remembered {
    pub(super) fn new() -> io::Result<Remembered> {
        let (seen, kept, judged) = (Seen::default(), Positions::default(), Judged::default());
        Ok(Remembered { id: random_id()?, seen, kept, judged })
    }

    /// `None` if the state is that of another kind of sink.
    pub(super) fn parse(state: &str) -> Option<Remembered> {
        let mut words = state.strip_prefix("nats ")?.splitn(4, ' ');
        let id = words.next()?.to_owned();
        let created = words.next()?;
        let sequence = words.next()?.parse().ok()?;
        let (positions, kept) = words.next()?.split_once('/')?;
        // An older bbq wrote nothing behind what is kept.
        let (kept, judged) = kept.split_once('/').unwrap_or((kept, ""));
        let (positions, kept) = (Positions::parse(positions)?, Positions::parse(kept)?);
        let judged = Judged::parse(judged).unwrap_or_default();
        let created = if created == "-" { String::new() } else { created.to_owned() };
        Some(Remembered { id, seen: Seen { created, sequence, positions }, kept, judged })
    }
}

impl Judged {
    fn parse(text: &str) -> Option<Judged> {
        let (format, payload) = text.trim().split_once(' ')?;
        Some(Judged { format: format.to_owned(), payload: payload.parse().ok()? })
    }
}

/// 16 hexadecimal digits.
pub(super) fn random_id() -> io::Result<String> {
    let mut id = [0; 8];
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    Ok(format!("{:016x}", u64::from_be_bytes(id)))
}

impl Shared {
    /// For messages in this format.
    pub(super) fn new(remembered: Remembered, format: &str) -> io::Result<Shared> {
        let Remembered { id, seen, kept, judged } = remembered;
        let is_same = judged.format == format;
        let judged = if is_same { judged } else { Judged { format: format.to_owned(), payload: 0 } };
        let is_judged_known = is_same || kept == Positions::default();
        let handed_over = kept.clone();
        let state = State { seen, handed_over, kept, judged, is_judged_known, ..State::default() };
        Ok(Shared {
            id,
            writer: random_id()?,
            doubts: Arc::default(),
            too_large: TooLarge::default(),
            forbidden: Mutex::default(),
            state: Mutex::new(state),
        })
    }

    /// What the cursor remembers, with the groups that the driver has. What is not known is not written, so that the next start does not
    /// know it either.
    pub(super) fn text(&self) -> String {
        let State { seen, handed_over, judged: Judged { format, payload }, is_judged_known, .. } =
            &*self.state();
        let Seen { created, sequence, positions } = seen;
        let created = if created.is_empty() { "-" } else { created };
        let judged = if *is_judged_known { format!(" / {format} {payload}") } else { String::new() };
        format!("nats {} {created} {sequence} {positions} / {handed_over}{judged}", self.id)
    }

    pub(super) fn batch_bytes(&self) -> Option<usize> {
        self.state().batch_bytes
    }

    pub(super) fn set_batch_bytes(&self, bytes: usize) {
        self.state().batch_bytes = Some(bytes);
    }

    /// The driver has the groups before this place.
    pub(super) fn hand_over(&self, LanePlace { lane, position, record }: LanePlace) {
        self.state()
            .handed_over
            .advance(lane, Position { until: position, record, begun: None, received_ns: 0 });
    }

    /// The cursor has [`Shared::text`], and these places.
    pub(super) fn commit(&self, places: &[LanePlace]) {
        let mut state = self.state();
        state.kept = state.handed_over.clone();
        state.passed = places.to_vec();
        state.commits += 1;
    }

    /// Grows with each commit: before the next one, [`Shared::sort_refused`] has nothing new.
    pub(super) fn commits(&self) -> u64 {
        self.state().commits
    }

    /// Notes which messages that were not published are dead letters, and forgets those that the cursor has passed, which do not come again.
    pub(super) fn sort_refused(&self, refused: &mut Refused) {
        let state = self.state();
        refused.keep(&state.kept);
        refused.forget(&state.passed);
    }

    pub(super) fn forbidden(&self) -> MutexGuard<'_, Forbidden> {
        self.forbidden.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was handed over since the last commit comes again.
    pub(super) fn roll_back(&self) {
        let mut state = self.state();
        state.handed_over = state.kept.clone();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn seen(&self) -> Seen {
        self.state().seen.clone()
    }

    /// The place of the last progress in the stream.
    pub(super) fn sequence(&self) -> u64 {
        self.state().seen.sequence
    }

    /// Behind the last groups whose rejected messages are dead letters.
    pub(super) fn kept(&self) -> Positions {
        self.state().kept.clone()
    }

    /// Messages larger than `payload` are rejected from now on. Returns the largest such limit since groups are kept: only a larger message
    /// of these groups is certainly a dead letter. The limit never shrinks, so a message below it may be kept twice, and is never lost.
    pub(super) fn judge(&self, payload: usize) -> usize {
        let mut state = self.state();
        state.judged.payload = state.judged.payload.max(payload);
        if state.is_judged_known { state.judged.payload } else { usize::MAX }
    }

    /// Whether the stream has progress of this writer, as far as is known.
    pub(super) fn is_writer(&self) -> bool {
        self.state().begun_at.is_some()
    }

    /// Whether progress of another writer at this place came after the first of this one.
    pub(super) fn is_after_own(&self, sequence: u64) -> bool {
        self.state().begun_at.is_some_and(|begun_at| sequence > begun_at)
    }

    /// The stream has, or gets, no progress of this writer.
    pub(super) fn forget_writing(&self) {
        self.state().begun_at = None;
    }

    pub(super) fn set_windowed(&self, is_windowed: bool) {
        self.state().is_windowed = is_windowed;
    }

    pub(super) fn is_windowed(&self) -> bool {
        self.state().is_windowed
    }

    pub(super) fn set_connected(&self, is_connected: bool) {
        self.state().is_connected = is_connected;
    }

    pub(super) fn is_connected(&self) -> bool {
        self.state().is_connected
    }

    /// Notes how far the stream is. Returns how many messages it has lost.
    pub(super) fn see(&self, seen: &Seen) -> u64 {
        let mut state = self.state();
        let before = std::mem::replace(&mut state.seen, seen.clone()).positions;
        state.losses.note(&before, &seen.positions)
    }

    /// See [`Losses::gone`].
    pub(super) fn gone(&self, lane: u32, first_record: u64) -> u64 {
        self.state().losses.gone(lane, first_record)
    }

    /// Notes that the stream has progress of this writer.
    pub(super) fn wrote(&self, sequence: u64, positions: &Positions) {
        let mut state = self.state();
        state.begun_at.get_or_insert(sequence);
        state.seen.sequence = sequence;
        state.seen.positions.clone_from(positions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cursor_remembers_is_read_again() {
        let positions = Positions::parse("0:8192:70:3 1:4096:9").unwrap();
        let seen = Seen { created: "2026-11-20T11:33:49.1Z".to_owned(), sequence: 7, positions };
        for seen in [seen, Seen::default()] {
            let kept = Positions::parse("1:2048:5").unwrap();
            let judged = Judged::parse("raw 744").unwrap();
            let remembered = Remembered { seen, kept, judged, ..Remembered::new().unwrap() };
            let shared = Shared::new(remembered.clone(), "raw").unwrap();
            assert_eq!(Remembered::parse(&shared.text()), Some(remembered));
        }
        assert_eq!(Remembered::parse("link 1234"), None);
        let older = Remembered::parse("nats 1234 - 0 0:8192:70 / 0:4096:50").unwrap();
        assert_eq!(older.kept, Positions::parse("0:4096:50").unwrap());
        assert_eq!(older.judged, Judged::default());
    }

    #[test]
    fn the_largest_message_that_a_server_took_is_remembered() {
        let open = |text: &str, format| Shared::new(Remembered::parse(text).unwrap(), format).unwrap();
        let first = Shared::new(Remembered::new().unwrap(), "raw").unwrap();
        assert_eq!([first.judge(700), first.judge(900), first.judge(500)], [700, 900, 900]);
        first.hand_over(LanePlace { lane: 0, position: 4096, record: 9 });
        let text = first.text();
        assert_eq!(open(&text, "raw").judge(600), 900);
        // Messages had other sizes then, or it is unknown which were rejected.
        assert_eq!(open(&text, "json").judge(600), usize::MAX);
        let older = open("nats 1234 - 0 / 0:4096:9", "raw");
        assert_eq!(older.judge(600), usize::MAX);
        // Nor after the next start.
        assert_eq!(open(&older.text(), "raw").judge(600), usize::MAX);
    }
}
