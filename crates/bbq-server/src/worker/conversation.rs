//! What a client says, taken in order: its hello, its batches, its end. Who may speak for a stream and what is new is the
//! stream table's business; what is answered goes out by way of [`Session`].

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use bbq_listen::AsyncConnection;
use bbq_spool::{Envelope, LaneError};
use bbq_wire::batch::BatchLimits;
use bbq_wire::limits::BATCH_BODY_BYTES_MAX;
use bbq_wire::session::{AckLevel, Hello, Refusal, RefusalCode, ServerSession, ServerStep, Welcome};
use bbq_wire::{Batch, BatchHeader, Peer, SequenceCheck};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::sync::Notify;
use tracing::{debug, warn};

use super::acks::Pending;
use super::intake::{Intake, READ_BYTES};
use super::session::{Session, refuse, unsent};
use crate::streams::{Settled, Stream};
use crate::time::unix_ns;

/// Less room than this is not worth a system call.
const READ_BYTES_MIN: usize = 64 * 1024;
/// Reads of one session before the others have their turn.
const READS_PER_TURN_MAX: usize = 4;
/// Reads after the stop has begun.
const READS_AT_STOP_MAX: usize = 64;

/// Who speaks, once the hello has said so.
struct Speaker {
    stream: Arc<Stream>,
    owner: u64,
    session: Rc<Session>,
}

/// What handling the bytes at hand came to.
enum Handled {
    /// So many bytes in all are needed to go on.
    NeedMore(usize),
    /// A hello: the rest waits for the welcome.
    Hello(Hello),
    /// The lane takes nothing now.
    NoRoom,
}

pub(super) struct Conversation {
    intake: Rc<Intake>,
    door: usize,
    peer: Peer,
    protocol: ServerSession,
    limits: BatchLimits,
    /// Received; what stands before `handled` is done with. 0 <= handled <= held.len().
    held: Vec<u8>,
    handled: usize,
    /// What the worker's account has of `held`.
    accounted: usize,
    /// For compressed bodies.
    scratch: Vec<u8>,
}

impl Conversation {
    pub(super) fn new(intake: Rc<Intake>, door: usize, peer: Peer) -> Conversation {
        let message_bytes_max = intake.doors[door].spec.rules.message_bytes_max;
        let limits = BatchLimits { body_bytes_max: BATCH_BODY_BYTES_MAX, message_bytes_max };
        let protocol = ServerSession::new(limits);
        Conversation {
            intake,
            door,
            peer,
            protocol,
            limits,
            held: Vec::new(),
            handled: 0,
            accounted: 0,
            scratch: Vec::new(),
        }
    }

    pub(super) async fn run(&mut self, stream: AsyncConnection) {
        let ended = match Box::pin(self.meet(stream)).await {
            Ok(Some(speaker)) => {
                let ended = self.listen(&speaker).await;
                Box::pin(self.part(&speaker, ended)).await
            }
            Ok(None) => Ok(()),
            Err((stream, refusal)) => {
                self.count_refusal(&refusal);
                Box::pin(refuse(&stream, &refusal)).await
            }
        };
        if let Err(error) = ended {
            debug!(peer = ?self.peer, %error, "session ended");
        }
        self.release();
    }

    /// Waits for the hello and answers it; `None` when the client went away.
    async fn meet(&mut self, stream: AsyncConnection) -> Result<Option<Speaker>, (AsyncConnection, Refusal)> {
        let hello = loop {
            match self.handle(None) {
                Ok(Handled::Hello(hello)) => break hello,
                Ok(Handled::NeedMore(bytes)) => match self.receive(&stream, bytes).await {
                    Received::Some => {}
                    Received::End => return self.end_of(bytes).map(|()| None).map_err(|why| (stream, why)),
                    Received::Stopping => return Ok(None),
                    Received::TooMuch => return Err((stream, busy())),
                },
                Ok(Handled::NoRoom) => {}
                Err(refusal) => return Err((stream, refusal)),
            }
        };
        let (known, owner) = self.intake.streams.take_over(hello.stream);
        // What came over an earlier connection of this stream must be on disk, or the answer would invite it again.
        let last_sequence = match known.settled(owner).await {
            Settled::Until(sequence) => sequence,
            Settled::Never => {
                let why = "a lane failed; the server must be restarted";
                return Err((stream, Refusal::new(RefusalCode::SpoolFailed, why)));
            }
            Settled::TakenOver => return Err((stream, taken_over())),
        };
        let session = Rc::new(Session {
            stream,
            level: hello.ack,
            outstanding: Cell::new(0),
            acknowledged: Cell::new(last_sequence),
            said: Cell::new(last_sequence),
            outbox: RefCell::default(),
            failed: Cell::new(false),
            wake: Notify::new(),
            in_line: Cell::new(false),
        });
        let welcome = Welcome {
            last_sequence,
            ack: hello.ack,
            body_bytes_max: self.limits.body_bytes_max,
            message_bytes_max: self.limits.message_bytes_max,
            server: concat!("bbq ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        welcome.encode(&mut session.outbox.borrow_mut());
        debug!(peer = ?self.peer, stream = %hello.stream, client = hello.client, last_sequence, "session");
        Ok(Some(Speaker { stream: known, owner, session }))
    }

    /// Takes batches until the client has no more, must be refused, or the server stops.
    async fn listen(&mut self, speaker: &Speaker) -> Result<(), Refusal> {
        let session = &speaker.session;
        loop {
            let handled = self.handle(Some(speaker))?;
            // The welcome, and acknowledgements that no disk has to be waited for.
            session.push_out();
            if session.failed.get() {
                let why = "the lane failed with batches that were not acknowledged; send them again";
                return Err(Refusal::new(RefusalCode::SpoolFailed, why));
            }
            let needed = match handled {
                Handled::NeedMore(bytes) => bytes,
                Handled::Hello(_) => return Err(Refusal::new(RefusalCode::Malformed, "a second hello")),
                Handled::NoRoom => {
                    Box::pin(self.wait_room()).await;
                    continue;
                }
            };
            let received = tokio::select! {
                biased;
                received = self.receive(&session.stream, needed) => received,
                () = unsent(session) => continue,
            };
            match received {
                Received::Some => {}
                Received::TooMuch => return Err(busy()),
                Received::End => return self.end_of(needed),
                Received::Stopping => {
                    self.finish_reading(speaker)?;
                    return Err(Refusal::new(RefusalCode::ShuttingDown, "the server is stopping"));
                }
            }
        }
    }

    /// The client has ended the connection: in order between two items, and not in the middle of one.
    fn end_of(&self, needed: usize) -> Result<(), Refusal> {
        match self.held.len() - self.handled {
            0 => Ok(()),
            bytes => {
                let text =
                    format!("the connection ended in the middle: {bytes} of at least {needed} bytes came");
                Err(Refusal::new(RefusalCode::Malformed, text))
            }
        }
    }

    /// Takes what is in the socket when the server stops.
    fn finish_reading(&mut self, speaker: &Speaker) -> Result<(), Refusal> {
        for _ in 0..READS_AT_STOP_MAX {
            let Handled::NeedMore(needed) = self.handle(Some(speaker))? else { break };
            match self.receive_now(&speaker.session.stream, needed) {
                Ok(Some(1..)) => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// Waits for the acknowledgements that are due, says why it ends, and closes.
    async fn part(&mut self, speaker: &Speaker, ended: Result<(), Refusal>) -> io::Result<()> {
        let session = &speaker.session;
        let taken_over = speaker.stream.head().owner != speaker.owner;
        while session.outstanding.get() > 0 && !taken_over {
            session.wake.notified().await;
        }
        session.flushed().await?;
        match ended {
            Ok(()) => Ok(()),
            Err(refusal) => {
                self.count_refusal(&refusal);
                refuse(&session.stream, &refusal).await
            }
        }
    }

    fn count_refusal(&self, refusal: &Refusal) {
        if refusal.code == RefusalCode::ShuttingDown {
            return;
        }
        let door = &self.intake.doors[self.door];
        door.ledger.add_refused(1);
        if let Some(repeats) = door.trouble.report() {
            warn!(listener = door.spec.source, peer = ?self.peer, reason = %refusal, repeats, "session refused");
        }
    }

    /// Handles what is held, as far as it goes.
    fn handle(&mut self, speaker: Option<&Speaker>) -> Result<Handled, Refusal> {
        // Taken out and put back, so that a batch can be lent from it.
        let held = std::mem::take(&mut self.held);
        let handled = self.handle_all(&held, speaker);
        self.held = held;
        if self.handled == self.held.len() {
            self.release();
        }
        handled
    }

    fn handle_all(&mut self, held: &[u8], speaker: Option<&Speaker>) -> Result<Handled, Refusal> {
        loop {
            match self.protocol.next(&held[self.handled..])? {
                ServerStep::NeedMore { at_least } => return Ok(Handled::NeedMore(at_least)),
                ServerStep::Hello { hello, consumed } => {
                    self.handled += consumed;
                    return Ok(Handled::Hello(hello));
                }
                ServerStep::Batch { bytes, header, consumed } => {
                    let Some(speaker) = speaker else {
                        return Err(Refusal::new(RefusalCode::HelloExpected, "a batch before the welcome"));
                    };
                    if !self.batch(speaker, &header, bytes)? {
                        return Ok(Handled::NoRoom);
                    }
                    self.handled += consumed;
                }
            }
        }
    }

    /// Gives the buffer back: a session that waits for its client holds none.
    fn release(&mut self) {
        self.intake.give_back(std::mem::take(&mut self.held));
        self.handled = 0;
        // Less than before is never refused.
        self.account();
    }

    /// Tells the worker how much is held now; `false` when that is too much.
    fn account(&mut self) -> bool {
        let is_allowed = self.intake.hold(self.accounted, self.held.len());
        if is_allowed {
            self.accounted = self.held.len();
        }
        is_allowed
    }

    /// Appends a batch if it is new and right; `false` when the lane is full.
    fn batch(&mut self, speaker: &Speaker, header: &BatchHeader, bytes: &[u8]) -> Result<bool, Refusal> {
        let door = &self.intake.doors[self.door];
        if !self.intake.lane.has_room() && self.intake.lane.failure().is_none() {
            return Ok(false);
        }
        Batch::verify(bytes, self.limits, &mut self.scratch)?;
        if self.scratch.capacity() > READ_BYTES {
            self.scratch = Vec::new();
        }
        let mut head = speaker.stream.head();
        if head.owner != speaker.owner {
            return Err(taken_over());
        }
        match SequenceCheck::of(head.appended, header.first_sequence, header.records) {
            SequenceCheck::Next => {}
            SequenceCheck::Gap { missing } => door.ledger.add_skipped(missing),
            SequenceCheck::Duplicate => {
                door.ledger.add_duplicates(u64::from(header.records));
                drop(head);
                if speaker.session.level != AckLevel::None {
                    speaker.session.said.set(0);
                    speaker.session.acknowledge(speaker.stream.durable());
                }
                return Ok(true);
            }
            SequenceCheck::Overlap => {
                let (first, known) = (header.first_sequence, head.appended);
                return Err(Refusal::new(
                    RefusalCode::Sequence,
                    format!(
                        "batch begins at {first}, and its records up to {known} are known; begin at {}",
                        known + 1
                    ),
                ));
            }
        }
        let envelope = Envelope { source: door.source, received_ns: unix_ns(), peer: self.peer };
        let urgent = speaker.session.level == AckLevel::Durable;
        let group = match self.intake.lane.append(&envelope, header, bytes, urgent) {
            Ok(group) => group,
            Err(LaneError::Full) => return Ok(false),
            Err(error) => return Err(Refusal::new(RefusalCode::SpoolFailed, error.to_string())),
        };
        let sequence = header.last_sequence();
        head.appended = sequence;
        drop(head);
        door.ledger.add_spooled(u64::from(header.records));
        if speaker.session.level == AckLevel::Received {
            speaker.session.acknowledge(sequence);
        }
        self.intake.acks.push(Pending {
            group,
            sequence,
            stream: Arc::clone(&speaker.stream),
            session: Rc::clone(&speaker.session),
        });
        Ok(true)
    }

    async fn wait_room(&self) {
        while !self.intake.lane.has_room() && self.intake.lane.failure().is_none() {
            self.intake.wait_lane_moved(self.door).await;
        }
    }

    /// Waits for bytes and puts them behind those held.
    async fn receive(&mut self, stream: &AsyncConnection, needed: usize) -> Received {
        let intake = Rc::clone(&self.intake);
        loop {
            let mut ready = tokio::select! {
                biased;
                () = intake.stopping.wait() => return Received::Stopping,
                ready = stream.readable() => match ready {
                    Ok(ready) => ready,
                    Err(_) => return Received::End,
                },
            };
            for _ in 0..READS_PER_TURN_MAX {
                match self.receive_now(stream, needed) {
                    Ok(Some(0)) | Err(_) => return Received::End,
                    Ok(Some(_)) if !self.account() => return Received::TooMuch,
                    Ok(Some(_)) if self.held.len() - self.handled >= needed => return Received::Some,
                    Ok(Some(_)) => {}
                    Ok(None) => {
                        ready.clear_ready();
                        break;
                    }
                }
            }
            drop(ready);
            tokio::task::consume_budget().await;
        }
    }

    /// Makes room for the rest of what is needed, and for a good read in any case. What is handled goes only when its
    /// place is wanted: a batch is moved once at most.
    fn make_room(&mut self, needed: usize) {
        if self.held.capacity() == 0 {
            self.held = self.intake.spare_buffer();
        }
        let missing = needed.saturating_sub(self.held.len() - self.handled).max(READ_BYTES_MIN);
        if self.held.capacity() - self.held.len() >= missing {
            return;
        }
        self.held.drain(..self.handled);
        self.handled = 0;
        self.held.reserve_exact(missing);
    }

    /// Reads once, without waiting; `None` when nothing is there, 0 at the end.
    fn receive_now(&mut self, stream: &AsyncConnection, needed: usize) -> io::Result<Option<usize>> {
        self.make_room(needed);
        loop {
            match recv(stream, spare_capacity(&mut self.held), RecvFlags::DONTWAIT) {
                Ok((_, bytes)) => return Ok(Some(bytes)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if self.held.is_empty() {
                        self.release();
                    }
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// How waiting for bytes ended.
enum Received {
    Some,
    /// The client has no more, or is gone.
    End,
    Stopping,
    /// Too much is held in unfinished batches already.
    TooMuch,
}

fn busy() -> Refusal {
    Refusal::new(RefusalCode::Busy, "too much is held in unfinished batches; try again later")
}

fn taken_over() -> Refusal {
    Refusal::new(RefusalCode::TakenOver, "a newer connection speaks for this stream")
}
