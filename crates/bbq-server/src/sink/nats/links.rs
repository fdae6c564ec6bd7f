//! What all links of a sink share: who writes, and how far the stream is as this sink knows it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bbq_spool::LanePlace;
use tokio::sync::mpsc::{Receiver, Sender};

use super::link::NatsLink;
use super::positions::{Position, Positions};
use super::target::NatsTarget;
use crate::sink::delivery::PendingGroup;
use crate::sink::interface::Settled;
use crate::sink::link_sink::Links;
use crate::sink::resolver::Resolver;

/// What the cursor remembers.
///
/// ```text
/// nats <id> <when the stream was made, or -> <place of the last progress in the stream> <positions> / <kept>
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remembered {
    /// 16 hexadecimal digits, of the sink and its data directory: the last token of the subject of its progress.
    pub(super) id: String,
    pub(super) seen: Seen,
    /// Behind the last groups whose rejected messages are dead letters.
    pub(super) kept: Positions,
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
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: Seen,
    kept: Positions,
    /// Behind the last groups that the driver has. A commit keeps their rejected messages.
    handed_over: Positions,
    /// Whether the last progress in the stream is known to be of this writer.
    is_writer: bool,
}

impl Remembered {
    pub(super) fn new() -> io::Result<Remembered> {
        Ok(Remembered { id: random_id()?, seen: Seen::default(), kept: Positions::default() })
    }

    /// `None` if the state is that of another kind of sink.
    pub(super) fn parse(state: &str) -> Option<Remembered> {
        let mut words = state.strip_prefix("nats ")?.splitn(4, ' ');
        let id = words.next()?.to_owned();
        let created = words.next()?;
        let sequence = words.next()?.parse().ok()?;
        let (positions, kept) = words.next()?.split_once('/')?;
        let (positions, kept) = (Positions::parse(positions)?, Positions::parse(kept)?);
        let created = if created == "-" { String::new() } else { created.to_owned() };
        Some(Remembered { id, seen: Seen { created, sequence, positions }, kept })
    }

    fn text(id: &str, Seen { created, sequence, positions }: &Seen, kept: &Positions) -> String {
        let created = if created.is_empty() { "-" } else { created };
        format!("nats {id} {created} {sequence} {positions} / {kept}")
    }
}

fn random_id() -> io::Result<String> {
    let mut id = [0; 8];
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    Ok(format!("{:016x}", u64::from_be_bytes(id)))
}

impl Shared {
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

    pub(super) fn is_writer(&self) -> bool {
        self.state().is_writer
    }

    /// Notes how far the stream is.
    pub(super) fn see(&self, seen: Seen) {
        self.state().seen = seen;
    }

    /// Notes that the stream has progress of this writer.
    pub(super) fn wrote(&self, sequence: u64, positions: &Positions) {
        let mut state = self.state();
        state.is_writer = true;
        state.seen.sequence = sequence;
        state.seen.positions.clone_from(positions);
    }
}

/// See the module.
pub(super) struct NatsLinks {
    target: Arc<NatsTarget>,
    resolver: Resolver,
    shared: Arc<Shared>,
}

impl NatsLinks {
    pub(super) fn new(target: Arc<NatsTarget>, remembered: Remembered) -> io::Result<NatsLinks> {
        let Remembered { id, seen, kept } = remembered;
        let state = Mutex::new(State { seen, handed_over: kept.clone(), kept, is_writer: false });
        let shared = Arc::new(Shared { id, writer: random_id()?, state });
        Ok(NatsLinks { target, resolver: Resolver::start()?, shared })
    }
}

impl Links for NatsLinks {
    /// Three batches of the server when groups are small.
    const GROUPS_MAX: usize = 512;
    /// Several batches; a lane's largest group may be added to it.
    const BYTES_MAX: usize = 8 * 1024 * 1024;
    /// A stream that is missing is to be told at once, and what the server lost is to be noticed while it is still here.
    const IS_EAGER: bool = true;

    type Link = NatsLink;

    fn link(&self, groups: Receiver<PendingGroup>, settled: Sender<Settled>) -> NatsLink {
        let (target, shared) = (Arc::clone(&self.target), Arc::clone(&self.shared));
        NatsLink::new(target, self.resolver.clone(), shared, groups, settled)
    }

    fn state(&self) -> String {
        let state = self.shared.state();
        Remembered::text(&self.shared.id, &state.seen, &state.handed_over)
    }

    /// A server without atomic batches does not say what it has, and would get everything again.
    fn keep(&self) -> Duration {
        if self.shared.is_writer() { self.target.keep } else { Duration::ZERO }
    }

    fn handed_over(&self, LanePlace { lane, position, record }: LanePlace) {
        self.shared.state().handed_over.advance(lane, Position { until: position, record, begun: None });
    }

    fn committed(&self) {
        let mut state = self.shared.state();
        state.kept = state.handed_over.clone();
    }

    fn rolled_back(&self) {
        let mut state = self.shared.state();
        state.handed_over = state.kept.clone();
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
            let remembered = Remembered { seen, kept, ..Remembered::new().unwrap() };
            let text = Remembered::text(&remembered.id, &remembered.seen, &remembered.kept);
            assert_eq!(Remembered::parse(&text), Some(remembered));
        }
        assert_eq!(Remembered::parse("link 1234"), None);
    }
}
