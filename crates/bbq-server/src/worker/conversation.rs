//! What a client says, taken in order: its hello, its batches, its end. Who may speak for a stream is the stream table's
//! business, and what is new its [`Speaker`]'s; what is answered goes out by way of [`Session`].

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use bbq_listen::AsyncConnection;
use bbq_wire::batch::BatchLimits;
use bbq_wire::session::{Hello, Refusal, RefusalCode, ServerSession, ServerStep, Welcome};
use bbq_wire::{Batch, BatchHeader, Peer};
use tracing::{debug, warn};

use super::inbox::Inbox;
use super::intake::{Intake, READ_BYTES};
use super::rounds::Heard;
use super::session::{Session, refuse, unsent};
use super::speaker::{Speaker, Standing, taken_over};
use crate::streams::Settled;

/// Reads of one session before the others have their turn.
const READS_PER_TURN_MAX: usize = 4;
/// Reads after the stop has begun.
const READS_AT_STOP_MAX: usize = 64;

/// A session that is quiet: what whoever goes on with it has to know.
pub(super) struct Left {
    pub(super) stream: OwnedFd,
    pub(super) protocol: ServerSession,
    /// `None` before the hello.
    pub(super) standing: Option<Standing>,
}

/// How the greeting ended.
enum Met {
    Speaker(Speaker),
    /// Nothing came yet.
    Quiet(AsyncConnection),
    /// Nothing will come.
    Gone,
}

/// How listening ended, when nothing was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listened {
    /// There is nothing to wait for now.
    Quiet,
    /// The client has no more.
    ToTheEnd,
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
    pub(super) door: usize,
    pub(super) peer: Peer,
    protocol: ServerSession,
    limits: BatchLimits,
    inbox: Inbox,
    /// When the last batch came.
    heard: Heard,
    /// The socket was not looked at yet.
    is_new: bool,
    /// For compressed bodies.
    scratch: Vec<u8>,
}

impl Conversation {
    pub(super) fn new(intake: Rc<Intake>, door: usize, peer: Peer, protocol: ServerSession) -> Conversation {
        Conversation {
            limits: intake.doors[door].batch_limits(),
            inbox: Inbox::new(Rc::clone(&intake)),
            // Who only says hello is quiet right after the welcome.
            heard: intake.rounds.long_ago(),
            is_new: true,
            intake,
            door,
            peer,
            protocol,
            scratch: Vec::new(),
        }
    }

    /// Serves a session to its end; or until it is quiet, then answers what is left of it.
    pub(super) async fn run(&mut self, stream: AsyncConnection, standing: Option<Standing>) -> Option<Left> {
        let met = match standing {
            Some(standing) => Ok(Met::Speaker(Speaker::resumed(stream, standing))),
            None => Box::pin(self.meet(stream)).await,
        };
        let ended = match met {
            Ok(Met::Speaker(speaker)) => match self.listen(&speaker).await {
                Ok(Listened::Quiet) => {
                    let (stream, standing) = speaker.leave()?;
                    return Some(self.left(stream, Some(standing)));
                }
                Ok(Listened::ToTheEnd) => Box::pin(self.part(&speaker, Ok(()))).await,
                Err(refusal) => Box::pin(self.part(&speaker, Err(refusal))).await,
            },
            Ok(Met::Quiet(stream)) => return Some(self.left(stream, None)),
            Ok(Met::Gone) => Ok(()),
            Err((stream, refusal)) => {
                self.count_refusal(&refusal);
                Box::pin(refuse(&stream, &refusal)).await
            }
        };
        if let Err(error) = ended {
            debug!(peer = ?self.peer, %error, "session ended");
        }
        self.inbox.release();
        None
    }

    /// A session that is quiet.
    fn left(&self, stream: AsyncConnection, standing: Option<Standing>) -> Left {
        Left { stream: stream.into(), protocol: self.protocol, standing }
    }

    /// Waits for the hello and answers it.
    async fn meet(&mut self, stream: AsyncConnection) -> Result<Met, (AsyncConnection, Refusal)> {
        let hello = loop {
            match self.handle(None) {
                Ok(Handled::Hello(hello)) => break hello,
                Ok(Handled::NeedMore(bytes)) => match self.receive(&stream, None, bytes).await {
                    Received::Some => {}
                    Received::Quiet => return Ok(Met::Quiet(stream)),
                    Received::End => {
                        return self.end_of(bytes).map(|()| Met::Gone).map_err(|why| (stream, why));
                    }
                    Received::Stopping => return Ok(Met::Gone),
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
        let speaker = Speaker::new(known, owner, Session::new(stream, hello.ack, last_sequence));
        let welcome = Welcome {
            last_sequence,
            ack: hello.ack,
            body_bytes_max: self.limits.body_bytes_max,
            message_bytes_max: self.limits.message_bytes_max,
            server: concat!("bbq ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        welcome.encode(&mut speaker.session.outbox.borrow_mut());
        debug!(peer = ?self.peer, stream = %hello.stream, client = hello.client, last_sequence, "session");
        Ok(Met::Speaker(speaker))
    }

    /// Takes batches until the client has no more or is quiet, must be refused, or the server stops.
    async fn listen(&mut self, speaker: &Speaker) -> Result<Listened, Refusal> {
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
                received = self.receive(&session.stream, Some(session), needed) => received,
                () = unsent(session) => continue,
            };
            match received {
                Received::Some => {}
                Received::TooMuch => return Err(busy()),
                Received::Quiet => return Ok(Listened::Quiet),
                Received::End => return self.end_of(needed).map(|()| Listened::ToTheEnd),
                Received::Stopping => {
                    self.finish_reading(speaker)?;
                    return Err(Refusal::new(RefusalCode::ShuttingDown, "the server is stopping"));
                }
            }
        }
    }

    /// The client has ended the connection: in order between two items, and not in the middle of one.
    fn end_of(&self, needed: usize) -> Result<(), Refusal> {
        match self.inbox.waiting() {
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
            match self.inbox.receive(&speaker.session.stream, needed) {
                Ok(Some(1..)) => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// Waits for the acknowledgements that are due, says why it ends, and closes.
    async fn part(&mut self, speaker: &Speaker, ended: Result<(), Refusal>) -> io::Result<()> {
        let session = &speaker.session;
        let is_taken_over = speaker.is_taken_over();
        while session.outstanding.get() > 0 && !is_taken_over {
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
        let (held, mut handled) = self.inbox.take();
        let outcome = self.handle_all(&held, &mut handled, speaker);
        self.inbox.put_back(held, handled);
        outcome
    }

    fn handle_all(
        &mut self,
        held: &[u8],
        handled: &mut usize,
        speaker: Option<&Speaker>,
    ) -> Result<Handled, Refusal> {
        loop {
            match self.protocol.next(&held[*handled..])? {
                ServerStep::NeedMore { at_least } => return Ok(Handled::NeedMore(at_least)),
                ServerStep::Hello { hello, consumed } => {
                    *handled += consumed;
                    return Ok(Handled::Hello(hello));
                }
                ServerStep::Batch { bytes, header, consumed } => {
                    let Some(speaker) = speaker else {
                        return Err(Refusal::new(RefusalCode::HelloExpected, "a batch before the welcome"));
                    };
                    self.heard = self.intake.rounds.hear(&self.intake.view.active_sessions);
                    if !self.batch(speaker, &header, bytes)? {
                        return Ok(Handled::NoRoom);
                    }
                    *handled += consumed;
                }
            }
        }
    }

    /// Appends a batch if it is new and right; `false` when the lane is full.
    fn batch(&mut self, speaker: &Speaker, header: &BatchHeader, bytes: &[u8]) -> Result<bool, Refusal> {
        if !self.intake.lane.has_room() && self.intake.lane.failure().is_none() {
            return Ok(false);
        }
        Batch::verify(bytes, self.limits, &mut self.scratch)?;
        if self.scratch.capacity() > READ_BYTES {
            self.scratch = Vec::new();
        }
        speaker.append(&self.intake, self.door, self.peer, header, bytes)
    }

    async fn wait_room(&self) {
        while !self.intake.lane.has_room() && self.intake.lane.failure().is_none() {
            self.intake.wait_lane_moved(self.door).await;
        }
    }

    /// Waits for bytes and puts them behind those held.
    async fn receive(
        &mut self,
        stream: &AsyncConnection,
        session: Option<&Session>,
        needed: usize,
    ) -> Received {
        let intake = Rc::clone(&self.intake);
        loop {
            if intake.stopping.has_begun() {
                return Received::Stopping;
            }
            let mut ready = None;
            // A task begins because there is something.
            if !std::mem::take(&mut self.is_new) {
                if self.is_quiet(session) {
                    return Received::Quiet;
                }
                ready = tokio::select! {
                    biased;
                    // A round, or the stop.
                    () = intake.rounds.told() => continue,
                    ready = stream.readable() => match ready {
                        Ok(ready) => Some(ready),
                        Err(_) => return Received::End,
                    },
                };
            }
            match self.receive_now(stream, needed) {
                Turn::Received(received) => return received,
                Turn::Drained => {
                    if let Some(mut ready) = ready {
                        ready.clear_ready();
                    }
                }
                Turn::More => {}
            }
            tokio::task::consume_budget().await;
        }
    }

    fn receive_now(&mut self, stream: &AsyncConnection, needed: usize) -> Turn {
        for _ in 0..READS_PER_TURN_MAX {
            match self.inbox.receive(stream, needed) {
                Ok(Some(0)) | Err(_) => return Turn::Received(Received::End),
                Ok(Some(_)) if !self.inbox.account() => return Turn::Received(Received::TooMuch),
                Ok(Some(_)) if self.inbox.waiting() >= needed => return Turn::Received(Received::Some),
                Ok(Some(_)) => {}
                Ok(None) => return Turn::Drained,
            }
        }
        Turn::More
    }

    /// Whether a task is too much for it: nothing is half received or owed, and no batch came for a while.
    fn is_quiet(&self, session: Option<&Session>) -> bool {
        self.intake.rounds.is_long_ago(self.heard)
            && self.inbox.waiting() == 0
            && session.is_none_or(Session::is_settled)
    }
}

/// How waiting for bytes ended.
enum Received {
    Some,
    /// There is nothing to wait for now.
    Quiet,
    /// The client has no more, or is gone.
    End,
    Stopping,
    /// Too much is held in unfinished batches already.
    TooMuch,
}

/// What a turn of reading came to.
enum Turn {
    Received(Received),
    /// Not enough, and nothing more is there.
    Drained,
    /// Not enough, and there may be more.
    More,
}

fn busy() -> Refusal {
    Refusal::new(RefusalCode::Busy, "too much is held in unfinished batches; try again later")
}
