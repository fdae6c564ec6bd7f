//! What all links of a sink share: who writes, and how far the topic is as this sink knows it.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bbq_spool::LanePlace;

use crate::sink::positions::{Position, Positions};

/// What the cursor remembers.
///
/// ```text
/// kafka <id> <positions>
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remembered {
    /// 16 hexadecimal digits, of the sink and its data directory: the key of its progress, and in its `transactional.id`.
    pub(super) id: String,
    /// How far the topic was when it last took something.
    pub(super) positions: Positions,
}

/// See the module.
pub(super) struct Shared {
    pub(super) id: String,
    /// Another one each time that the sink is opened.
    pub(super) writer: String,
    state: Mutex<State>,
}

struct State {
    seen: Positions,
    /// Behind the groups that the driver has.
    handed_over: Positions,
    /// Behind the groups that the cursor has passed; their refused messages are dead letters.
    committed: Positions,
    /// Whether the last progress is known to be of this writer.
    is_writer: bool,
    /// Another writer came later: this one must not come back.
    is_taken_over: bool,
    /// How often the topic took something.
    writes: u64,
    /// Largest batch that the brokers are known to take, if they refused a larger one.
    batch_bytes_max: Option<usize>,
}

impl Remembered {
    pub(super) fn new() -> io::Result<Remembered> {
        Ok(Remembered { id: random_id()?, positions: Positions::default() })
    }

    /// `None` if the state is that of another kind of sink.
    pub(super) fn parse(state: &str) -> Option<Remembered> {
        let (id, positions) = state.strip_prefix("kafka ")?.split_once(' ')?;
        Some(Remembered { id: id.to_owned(), positions: Positions::parse(positions)? })
    }
}

fn random_id() -> io::Result<String> {
    let mut id = [0; 8];
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    Ok(format!("{:016x}", u64::from_be_bytes(id)))
}

impl Shared {
    pub(super) fn new(Remembered { id, positions }: Remembered) -> io::Result<Shared> {
        let state = State {
            seen: positions,
            handed_over: Positions::default(),
            committed: Positions::default(),
            is_writer: false,
            is_taken_over: false,
            writes: 0,
            batch_bytes_max: None,
        };
        Ok(Shared { id, writer: random_id()?, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the cursor remembers.
    pub(super) fn text(&self) -> String {
        format!("kafka {} {}", self.id, self.state().seen)
    }

    /// The driver has the groups before this place.
    pub(super) fn hand_over(&self, LanePlace { lane, position, record }: LanePlace) {
        self.state().handed_over.advance(lane, Position { until: position, record, begun: None });
    }

    /// The cursor has passed what was handed over.
    pub(super) fn commit(&self) {
        let mut state = self.state();
        state.committed = state.handed_over.clone();
    }

    /// What was handed over since the last commit comes again.
    pub(super) fn roll_back(&self) {
        let mut state = self.state();
        state.handed_over = state.committed.clone();
    }

    /// Behind the groups that the cursor has passed since the sink was opened.
    pub(super) fn committed(&self) -> Positions {
        self.state().committed.clone()
    }

    pub(super) fn seen(&self) -> Positions {
        self.state().seen.clone()
    }

    pub(super) fn is_writer(&self) -> bool {
        self.state().is_writer
    }

    pub(super) fn is_taken_over(&self) -> bool {
        self.state().is_taken_over
    }

    pub(super) fn take_over(&self) {
        self.state().is_taken_over = true;
    }

    /// Notes that the topic has progress of this writer.
    pub(super) fn wrote_progress(&self, positions: &Positions) {
        let mut state = self.state();
        state.is_writer = true;
        state.seen.clone_from(positions);
    }

    /// Notes that the topic took something.
    pub(super) fn wrote(&self) {
        self.state().writes += 1;
    }

    pub(super) fn writes(&self) -> u64 {
        self.state().writes
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
        for text in ["", "0:8192:70:3 1:4096:9"] {
            let positions = Positions::parse(text).unwrap();
            let remembered = Remembered { positions, ..Remembered::new().unwrap() };
            let shared = Shared::new(remembered.clone()).unwrap();
            assert_eq!(Remembered::parse(&shared.text()), Some(remembered));
        }
        assert_eq!(Remembered::parse("nats 1234 - 0  / "), None);
    }
}
