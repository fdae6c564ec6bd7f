//! The one connection that speaks for a stream, until a newer one does: it puts the stream's batches into the lane, in order
//! and each once. That they are whole and within the limits is checked before.

use std::rc::Rc;
use std::sync::Arc;

use bbq_listen::AsyncConnection;
use bbq_spool::{Envelope, LaneError};
use bbq_wire::session::{AckLevel, Refusal, RefusalCode};
use bbq_wire::{BatchHeader, Peer, SequenceCheck};

use super::acks::Pending;
use super::intake::Intake;
use super::session::Session;
use crate::streams::Stream;
use crate::time::unix_ns;

/// Who speaks, once the hello has said so.
pub(super) struct Speaker {
    stream: Arc<Stream>,
    owner: u64,
    pub(super) session: Rc<Session>,
}

/// What a hello has settled, and how far the session is: what is left of a speaker without its connection.
pub(super) struct Standing {
    stream: Arc<Stream>,
    owner: u64,
    level: AckLevel,
    /// The newest acknowledgement that was said.
    said: u64,
}

impl Speaker {
    /// `owner` is what the stream calls this connection.
    pub(super) fn new(stream: Arc<Stream>, owner: u64, session: Session) -> Speaker {
        Speaker { stream, owner, session: Rc::new(session) }
    }

    /// Goes on after a quiet time.
    pub(super) fn resumed(connection: AsyncConnection, standing: Standing) -> Speaker {
        let Standing { stream, owner, level, said } = standing;
        Speaker::new(stream, owner, Session::new(connection, level, said))
    }

    /// Leaves the connection and what whoever goes on has to know; `None` while a batch of it waits for the disk.
    pub(super) fn leave(self) -> Option<(AsyncConnection, Standing)> {
        let Speaker { stream, owner, session } = self;
        // Without a batch that waits for the disk nobody else has it.
        let session = Rc::into_inner(session)?;
        let standing = Standing { stream, owner, level: session.level, said: session.said.get() };
        Some((session.stream, standing))
    }

    /// Whether a newer connection speaks for the stream.
    pub(super) fn is_taken_over(&self) -> bool {
        self.stream.head().owner != self.owner
    }

    /// Appends a batch if it is new; `false` when the lane is full.
    pub(super) fn append(
        &self,
        intake: &Intake,
        door: usize,
        peer: Peer,
        header: &BatchHeader,
        bytes: &[u8],
    ) -> Result<bool, Refusal> {
        let door = &intake.doors[door];
        let session = &self.session;
        let mut head = self.stream.head();
        if head.owner != self.owner {
            return Err(taken_over());
        }
        match SequenceCheck::of(head.appended, header.first_sequence, header.records) {
            SequenceCheck::Next => {}
            SequenceCheck::Gap { missing } => door.ledger.add_skipped(missing),
            SequenceCheck::Duplicate => {
                door.ledger.add_duplicates(u64::from(header.records));
                drop(head);
                if session.level != AckLevel::None {
                    session.said.set(0);
                    session.acknowledge(self.stream.durable());
                }
                return Ok(true);
            }
            SequenceCheck::Overlap => return Err(overlap(header.first_sequence, head.appended)),
        }
        let envelope = Envelope { source: door.source, received_ns: unix_ns(), peer };
        let urgent = session.level == AckLevel::Durable;
        let group = match intake.lane.append(&envelope, header, bytes, urgent) {
            Ok(group) => group,
            Err(LaneError::Full) => return Ok(false),
            Err(error) => return Err(Refusal::new(RefusalCode::SpoolFailed, error.to_string())),
        };
        let sequence = header.last_sequence();
        head.appended = sequence;
        drop(head);
        door.ledger.add_spooled(u64::from(header.records));
        if session.level == AckLevel::Received {
            session.acknowledge(sequence);
        }
        let (stream, session) = (Arc::clone(&self.stream), Rc::clone(session));
        intake.acks.push(Pending { group, sequence, stream, session });
        Ok(true)
    }
}

fn overlap(first: u64, known: u64) -> Refusal {
    let next = known + 1;
    let text = format!("batch begins at {first}, and its records up to {known} are known; begin at {next}");
    Refusal::new(RefusalCode::Sequence, text)
}

/// For who spoke for a stream before.
pub(super) fn taken_over() -> Refusal {
    Refusal::new(RefusalCode::TakenOver, "a newer connection speaks for this stream")
}
