//! What all links of a sink share: who writes, and how far the topic is as this sink knows it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bbq_sink::{Doubts, Losses, Position, Positions, Refused, TooLarge};
use bbq_spool::LanePlace;

use super::size::TransactionSize;

/// What the cursor remembers.
///
/// ```text
/// kafka <id> <positions> / <kept> / <refused messages>
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remembered {
    /// 16 hexadecimal digits, of the sink and its data directory: the key of its progress, and in its `transactional.id`.
    pub(super) id: String,
    /// How far the topic was when it last took something.
    pub(super) positions: Positions,
    /// Behind the last groups whose refused messages are dead letters.
    pub(super) kept: Positions,
    /// Those of them that may come again, as the cursor stays behind what the topic has.
    pub(super) refused: Refused,
}

/// See the module.
pub(super) struct Shared {
    pub(super) id: String,
    /// Another one each time that the sink is opened.
    pub(super) writer: String,
    pub(super) doubts: Arc<Doubts>,
    pub(super) too_large: TooLarge,
    state: Mutex<State>,
}

struct State {
    seen: Positions,
    /// Behind the groups that the driver has. A commit keeps their refused messages.
    handed_over: Positions,
    /// Behind the groups whose refused messages are dead letters; not behind what is seen, once that went back.
    kept: Positions,
    /// What the cursor has passed, since the sink was opened.
    passed: Vec<LanePlace>,
    /// The messages behind it that the brokers refuse.
    refused: Refused,
    losses: Losses,
    /// The first progress of this writer is not before this offset; `None` if it is to be written.
    begun_at: Option<i64>,
    /// Whether the brokers are known to be there.
    is_connected: bool,
    /// Another writer came later: this one must not come back.
    is_taken_over: bool,
    /// How often the topic took something.
    writes: u64,
    /// Largest batch that the brokers are known to take, if they refused a larger one.
    batch_bytes_max: Option<usize>,
    /// Learned of the brokers, so it outlives a link.
    size: TransactionSize,
}

impl Remembered {
    pub(super) fn new() -> io::Result<Remembered> {
        let (positions, kept) = (Positions::default(), Positions::default());
        Ok(Remembered { id: random_id()?, positions, kept, refused: Refused::default() })
    }

    /// `None` if the state is that of another kind of sink.
    pub(super) fn parse(state: &str) -> Option<Remembered> {
        let (id, rest) = state.strip_prefix("kafka ")?.split_once(' ')?;
        // An older bbq wrote nothing behind the positions.
        let mut parts = rest.splitn(3, '/').chain(["", ""]);
        let mut next = || parts.next().unwrap_or_default();
        let (positions, kept, refused) = (next(), next(), next());
        Some(Remembered {
            id: id.to_owned(),
            positions: Positions::parse(positions)?,
            kept: Positions::parse(kept)?,
            // Without it, letters may be kept twice.
            refused: Refused::parse_letters(refused).unwrap_or_default(),
        })
    }
}

fn random_id() -> io::Result<String> {
    let mut id = [0; 8];
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    Ok(format!("{:016x}", u64::from_be_bytes(id)))
}

impl State {
    /// No group behind what the topic has needs its letters no more. The messages that are letters stay known as such.
    fn limit_kept(&mut self) {
        let State { refused, kept, seen, .. } = self;
        refused.keep(kept);
        kept.limit(seen);
        self.handed_over = self.kept.clone();
    }
}

impl Shared {
    pub(super) fn new(Remembered { id, positions, kept, refused }: Remembered) -> io::Result<Shared> {
        let state = State {
            seen: positions,
            handed_over: kept.clone(),
            kept,
            passed: Vec::new(),
            refused,
            losses: Losses::default(),
            begun_at: None,
            is_connected: false,
            is_taken_over: false,
            writes: 0,
            batch_bytes_max: None,
            size: TransactionSize::largest(),
        };
        Ok(Shared {
            id,
            writer: random_id()?,
            doubts: Arc::default(),
            too_large: TooLarge::default(),
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the cursor remembers.
    pub(super) fn text(&self) -> String {
        let state = self.state();
        let mut letters = state.refused.clone();
        letters.keep(&state.handed_over);
        let letters = letters.letters();
        format!("kafka {} {} / {} / {letters}", self.id, state.seen, state.handed_over)
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
    }

    /// What was handed over since the last commit comes again.
    pub(super) fn roll_back(&self) {
        let mut state = self.state();
        state.limit_kept();
    }

    pub(super) fn refused(&self) -> Refused {
        let state = self.state();
        let mut refused = state.refused.clone();
        refused.keep(&state.kept);
        refused
    }

    /// Notes which messages the brokers refuse, but for those that the cursor has passed, which do not come again.
    pub(super) fn note_refused(&self, refused: &mut Refused) {
        let mut state = self.state();
        refused.keep(&state.kept);
        refused.forget(&state.passed);
        state.refused.clone_from(refused);
    }

    /// Notes how far the topic is. Returns how many messages it has lost. If some of them are refused when they are sent again, they are
    /// no dead letters yet.
    pub(super) fn see(&self, found: &Positions) -> u64 {
        let mut state = self.state();
        let seen = std::mem::replace(&mut state.seen, found.clone());
        let lost = state.losses.note(&seen, found);
        if lost > 0 {
            state.limit_kept();
        }
        lost
    }

    /// See [`Losses::gone`].
    pub(super) fn gone(&self, lane: u32, first_record: u64) -> u64 {
        self.state().losses.gone(lane, first_record)
    }

    /// How far the topic was when it last took something.
    pub(super) fn seen(&self) -> Positions {
        self.state().seen.clone()
    }

    /// The same, without groups whose refused messages are no dead letters yet.
    pub(super) fn seen_and_kept(&self) -> Positions {
        let state = self.state();
        let mut positions = state.seen.clone();
        positions.limit(&state.kept);
        positions
    }

    /// Whether the topic of the progress has something of this writer, as far as is known.
    pub(super) fn is_writer(&self) -> bool {
        self.state().begun_at.is_some()
    }

    /// Whether progress of another writer at this offset came after the first of this one.
    pub(super) fn is_after_own(&self, offset: i64) -> bool {
        self.state().begun_at.is_some_and(|begun_at| offset >= begun_at)
    }

    /// The first progress of this writer is on its way. If another's is found instead, this one is written again.
    pub(super) fn begin_writing(&self) {
        self.state().begun_at = Some(i64::MAX);
    }

    /// The topic of the progress has something of this writer at this offset or behind it.
    pub(super) fn has_written(&self, offset: i64) {
        let mut state = self.state();
        state.begun_at = state.begun_at.map(|begun_at| begun_at.min(offset));
    }

    /// The topic of the progress has nothing of this writer any more.
    pub(super) fn forget_writing(&self) {
        self.state().begun_at = None;
    }

    pub(super) fn set_connected(&self, is_connected: bool) {
        self.state().is_connected = is_connected;
    }

    pub(super) fn is_connected(&self) -> bool {
        self.state().is_connected
    }

    pub(super) fn is_taken_over(&self) -> bool {
        self.state().is_taken_over
    }

    pub(super) fn take_over(&self) {
        self.state().is_taken_over = true;
    }

    /// Notes that the topic has progress of this writer.
    pub(super) fn wrote_progress(&self, positions: &Positions) {
        self.state().seen.clone_from(positions);
    }

    /// Notes that the topic took something.
    pub(super) fn wrote(&self) {
        self.state().writes += 1;
    }

    pub(super) fn writes(&self) -> u64 {
        self.state().writes
    }

    pub(super) fn size(&self) -> TransactionSize {
        self.state().size
    }

    /// See [`TransactionSize::taken`].
    pub(super) fn taken(&self, of: TransactionSize, took: Duration, timeout: Duration) {
        self.state().size.taken(of, took, timeout);
    }

    /// See [`TransactionSize::shrink`].
    pub(super) fn shrink(&self) {
        self.state().size.shrink();
    }

    pub(super) fn batch_bytes_max(&self) -> Option<usize> {
        self.state().batch_bytes_max
    }

    pub(super) fn set_batch_bytes_max(&self, bytes: usize) {
        self.state().batch_bytes_max = Some(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cursor_remembers_is_read_again() {
        for (positions, kept, refused) in [("", "", ""), ("0:8192:70:3 1:4096:9", "0:8192:70", "0:7+2")] {
            let (positions, kept) = (Positions::parse(positions).unwrap(), Positions::parse(kept).unwrap());
            let refused = Refused::parse_letters(refused).unwrap();
            let remembered = Remembered { positions, kept, refused, ..Remembered::new().unwrap() };
            let shared = Shared::new(remembered.clone()).unwrap();
            assert_eq!(Remembered::parse(&shared.text()), Some(remembered));
        }
        // Letters that cannot be read are no reason for a new id.
        assert_eq!(Remembered::parse("kafka 1234  /  / x").unwrap().id, "1234");
        let older = Remembered::parse("kafka 1234 0:8192:70").unwrap();
        assert_eq!(older.positions, Positions::parse("0:8192:70").unwrap());
        assert_eq!(older.kept, Positions::default());
        assert_eq!(Remembered::parse("nats 1234 - 0  / "), None);
    }

    #[test]
    fn another_writer_is_later_if_it_wrote_behind_the_first_of_this_one() {
        let shared = Shared::new(Remembered::new().unwrap()).unwrap();
        assert!(!shared.is_writer() && !shared.is_after_own(9));
        shared.begin_writing();
        assert!(shared.is_writer() && !shared.is_after_own(9));
        shared.has_written(7);
        assert!(shared.is_after_own(7) && !shared.is_after_own(6));
        // It was restored at a lower place.
        shared.has_written(5);
        assert!(shared.is_after_own(5));
        shared.forget_writing();
        assert!(!shared.is_writer());
        shared.has_written(5);
        assert!(!shared.is_writer());
    }

    /// The topic has lost a part of a group; messages of the group are refused, and not all of them are dead letters.
    #[test]
    fn a_loss_makes_no_message_a_dead_letter() {
        let positions = |text| Positions::parse(text).unwrap();
        let (seen, kept) = (positions("0:8192:70:20 1:4096:9"), positions("0:4096:50 1:4096:9"));
        let remembered = Remembered { positions: seen, kept, ..Remembered::new().unwrap() };
        let shared = Shared::new(remembered).unwrap();
        shared.note_refused(&mut Refused::parse("0:49+1 0:55+1 0:65+1 1:8+1").unwrap());
        assert_eq!(shared.see(&positions("0:8192:60:10 1:2048:5")), 14);
        let refused = shared.refused();
        assert_eq!(refused.letters().to_string(), "0:49+1 1:8+1");
        assert_eq!(refused.without_letters().to_string(), "0:55+1 0:65+1");
        // What is refused only now is none, although others of its lane were behind it.
        let mut refused = refused;
        refused.merge(Refused::parse("1:7+1").unwrap());
        shared.note_refused(&mut refused);
        assert_eq!(shared.refused().without_letters().to_string(), "0:55+1 0:65+1 1:7+1");
        shared.roll_back();
        assert_eq!(shared.refused().without_letters().to_string(), "0:55+1 0:65+1 1:7+1");
    }
}
