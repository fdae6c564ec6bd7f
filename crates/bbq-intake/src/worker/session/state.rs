//! A session from its first byte to its end.
//!
//! ```text
//! awaiting hello --hello--> hello received --+--> settling --all durable--> open --end, refusal, stop--> ending --> closed
//!     +                                      +--> another worker              +
//!     +----- nothing to do --> quiet (SuspendedSession) <-- nothing to do ----+
//! ```

use std::rc::Rc;
use std::sync::Arc;

use bbq_spool::LanePlace;
use bbq_stored::{Home, Numbers, Replicas, Settled, Visitor};
use bbq_wire::batch::BatchLimits;
use bbq_wire::session::{AckLevel, Hello, Refusal, RefusalCode, ServerSession, ServerStep, Welcome};
use bbq_wire::{StreamId, Token};
use tracing::debug;

use super::context::SessionContext;
use super::owner::{Arrived, Established, StreamOwner, taken_over};
use super::replies::{Connection, Replies};
use crate::access::{Admission, Denied};

/// The bytes that have arrived, and what a step did with them.
#[derive(Debug)]
pub struct Input<'a> {
    /// All bytes that are held.
    pub bytes: &'a [u8],
    /// How many of them are handled.
    pub handled: usize,
    /// Whether a batch was among them.
    pub has_batch: bool,
    /// Records of the batches that were taken.
    pub records: u64,
    /// Streams whose order was given up with a batch, each with the failed lane in which its earlier messages are unread.
    pub order_lost: Vec<(StreamId, u32)>,
}

impl<'a> Input<'a> {
    /// The held bytes, of which the first `handled` were handled before.
    pub fn new(bytes: &'a [u8], handled: usize) -> Input<'a> {
        Input { bytes, handled, has_batch: false, records: 0, order_lost: Vec::new() }
    }
}

/// The result of a step: what the session waits for now.
#[derive(Debug)]
pub enum Step {
    /// At least this many bytes, including those that are held and not handled yet.
    Read(usize),
    /// Room for a batch of this many bytes.
    AwaitRoom(usize),
    /// The batches of an earlier connection are on their way to the disk; see [`SessionState::owner`].
    AwaitStream,
    /// The next servers do not have what came over earlier connections; see [`SessionState::owner`].
    AwaitReplicas,
    /// Batches of this connection are on their way to the disk.
    AwaitAcks,
    /// The worker of this lane continues the session; see [`SessionState::hand_over`].
    HandOver(u32),
    /// Nothing: the connection is closed after it has taken all replies, and the refusal.
    Close(Option<Refusal>),
}

/// A quiet session: what is needed to continue it.
#[derive(Debug)]
pub struct SuspendedSession<C> {
    /// The client.
    pub connection: C,
    /// The codec.
    pub protocol: ServerSession,
    /// `None` before the hello.
    pub established: Option<Established>,
}

/// A session on its way to another worker.
#[derive(Debug)]
pub struct HandedHello<C> {
    /// The client.
    pub connection: C,
    /// The codec.
    pub protocol: ServerSession,
    /// The hello that was read, without its token.
    pub hello: Hello,
    /// The identity that the client's token proved; `None` if the listener asks for no token.
    pub admission: Option<Arc<Admission>>,
}

#[derive(Debug)]
enum Phase {
    /// No complete hello has come.
    AwaitingHello,
    /// The hello has come.
    HelloReceived(Hello, Option<Arc<Admission>>),
    /// This connection owns the stream, and batches of earlier connections are not durable yet.
    Settling(Hello, StreamOwner),
    /// Batches may come.
    Open(StreamOwner),
    /// The session ends as soon as the due acknowledgements are sent, if the client waits for them.
    Ending { waits: bool, refusal: Option<Refusal> },
}

/// One session.
#[derive(Debug)]
pub struct SessionState<C> {
    protocol: ServerSession,
    replies: Rc<Replies<C>>,
    phase: Phase,
    /// What the next servers must have before the welcome, once that is known.
    replicated_until: Option<Vec<LanePlace>>,
}

impl<C: Connection> SessionState<C> {
    /// The session of a connection from which nothing has come yet.
    pub fn new(connection: C, limits: BatchLimits) -> SessionState<C> {
        let protocol = ServerSession::new(limits);
        SessionState::resume(SuspendedSession { connection, protocol, established: None })
    }

    /// Continues a quiet session.
    pub fn resume(suspended: SuspendedSession<C>) -> SessionState<C> {
        let SuspendedSession { connection, protocol, established } = suspended;
        let (phase, level, ack_sent) = match established {
            None => (Phase::AwaitingHello, AckLevel::Durable, 0),
            Some(Established { owner, level, ack_sent }) => (Phase::Open(owner), level, ack_sent),
        };
        let replies = Rc::new(Replies::new(connection, level, ack_sent));
        SessionState { protocol, replies, phase, replicated_until: None }
    }

    /// Continues after a hello that another worker has read.
    pub fn handed(handed: HandedHello<C>) -> SessionState<C> {
        let HandedHello { connection, protocol, hello, admission } = handed;
        let replies = Rc::new(Replies::new(connection, AckLevel::Durable, 0));
        let phase = Phase::HelloReceived(hello, admission);
        SessionState { protocol, replies, phase, replicated_until: None }
    }

    /// The replies to the client.
    pub fn replies(&self) -> &Rc<Replies<C>> {
        &self.replies
    }

    /// Whether batches may come.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    /// The stream that this connection took over; `None` before that, and once the session ends.
    pub fn owner(&self) -> Option<&StreamOwner> {
        match &self.phase {
            Phase::Settling(_, owner) | Phase::Open(owner) => Some(owner),
            _ => None,
        }
    }

    /// Whether the session only waits for its client, and no reply is due: it may be suspended.
    pub fn can_suspend(&self) -> bool {
        matches!(self.phase, Phase::AwaitingHello | Phase::Open(_)) && self.replies.is_settled()
    }

    /// Takes the session apart, so that it can be continued later; `None` when it is not quiet.
    pub fn suspend(self) -> Option<SuspendedSession<C>> {
        let owner = match self.phase {
            Phase::AwaitingHello => None,
            Phase::Open(owner) => Some(owner),
            _ => return None,
        };
        // No batch waits for the disk, so this is the only reference.
        let replies = Rc::into_inner(self.replies)?;
        let (level, ack_sent) = (replies.level.get(), replies.ack_sent.get());
        let established = owner.map(|owner| Established { owner, level, ack_sent });
        Some(SuspendedSession { connection: replies.connection, protocol: self.protocol, established })
    }

    /// Takes the session apart for another worker; `None` unless the last step asked for that.
    pub fn hand_over(self) -> Option<HandedHello<C>> {
        let Phase::HelloReceived(hello, admission) = self.phase else { return None };
        let connection = Rc::into_inner(self.replies)?.connection;
        Some(HandedHello { connection, protocol: self.protocol, hello, admission })
    }

    /// Whether the next servers have what [`Step::AwaitReplicas`] waits for.
    pub(crate) fn is_replicated(&self, replicas: &Replicas) -> bool {
        self.replicated_until.as_ref().is_none_or(|until| replicas.have(until))
    }

    /// Handles the input as far as possible, and returns what the session waits for.
    pub fn step(&mut self, context: &SessionContext<'_, C>, input: &mut Input<'_>) -> Step {
        loop {
            let result = match &mut self.phase {
                Phase::AwaitingHello => self.read_hello(context, input),
                Phase::HelloReceived(..) => self.take_over_stream(context),
                Phase::Settling(..) => self.welcome(context),
                Phase::Open(_) => self.take_batches(context, input).map(Some),
                Phase::Ending { waits, refusal } => {
                    if *waits && self.replies.outstanding.get() > 0 {
                        return Step::AwaitAcks;
                    }
                    return Step::Close(refusal.take());
                }
            };
            match result {
                Ok(Some(step)) => return step,
                Ok(None) => {}
                Err(refusal) => self.end(Some(refusal)),
            }
        }
    }

    /// Ends the session because the server stops. The caller has already passed in the readable bytes.
    pub fn stop(&mut self) {
        match self.phase {
            // The client has sent nothing, so there is no reply.
            Phase::AwaitingHello => self.end(None),
            Phase::Ending { .. } => {}
            Phase::HelloReceived(..) | Phase::Settling(..) | Phase::Open(_) => {
                self.end(Some(Refusal::new(RefusalCode::ShuttingDown, "the server is stopping")));
            }
        }
    }

    /// Ends the session because the client has ended the connection. If `waiting` is not 0, the end came in the middle of a hello
    /// or a batch: `waiting` of at least `needed` bytes have come.
    pub fn input_ended(&mut self, waiting: usize, needed: usize) {
        let refusal = (waiting > 0).then(|| {
            let text = format!(
                "the connection ended in the middle of an item: {waiting} of at least {needed} bytes arrived"
            );
            Refusal::new(RefusalCode::Malformed, text)
        });
        self.end(refusal);
    }

    /// Ends the session for a reason of the caller.
    pub fn refuse(&mut self, refusal: Refusal) {
        self.end(Some(refusal));
    }

    fn end(&mut self, refusal: Option<Refusal>) {
        let waits = match &self.phase {
            Phase::Ending { .. } => return,
            // A client whose stream was taken over is told at once, before its acknowledgements.
            Phase::Open(owner) => !owner.is_taken_over(),
            _ => false,
        };
        self.phase = Phase::Ending { waits, refusal };
    }

    fn read_hello(
        &mut self,
        context: &SessionContext<'_, C>,
        input: &mut Input<'_>,
    ) -> Result<Option<Step>, Refusal> {
        match self.protocol.next(&input.bytes[input.handled..])? {
            ServerStep::NeedMore { at_least } => Ok(Some(Step::Read(at_least))),
            ServerStep::Hello { mut hello, consumed } => {
                input.handled += consumed;
                // A listener without tokens ignores the token.
                let token = hello.token.take();
                let admission = context.tokens.map(|tokens| tokens.check(token.as_ref().map(Token::expose)));
                self.phase = Phase::HelloReceived(hello, admission.transpose().map_err(not_allowed)?);
                Ok(None)
            }
            ServerStep::Batch { .. } => {
                Err(Refusal::new(RefusalCode::HelloExpected, "a batch before the hello"))
            }
        }
    }

    /// Makes this connection the owner of the stream, unless the stream's unread batches are in another lane or the client has a
    /// newer connection.
    fn take_over_stream(&mut self, context: &SessionContext<'_, C>) -> Result<Option<Step>, Refusal> {
        let Phase::HelloReceived(hello, admission) = &self.phase else { return Ok(None) };
        if hello.relays && admission.as_ref().is_some_and(|admission| !admission.relays()) {
            let text = "this token may not pass on the messages of others; write the word relay after it in this server's file of tokens";
            return Err(Refusal::new(RefusalCode::NotAllowed, text));
        }
        let visitor = Visitor {
            identity: admission.as_ref().map(|admission| admission.identity()),
            peer: context.peer,
            // The stream of a link is the link's own.
            relays: false,
            is_kept: hello.relays || hello.progress.is_some_and(|progress| progress.is_kept),
        };
        let stream = context.streams.admit(hello.stream, &visitor);
        let stream = stream.map_err(|why| Refusal::new(RefusalCode::NotAllowed, why.to_string()))?;
        let owner = context.streams.next_owner();
        match stream.take_over(owner, hello.epoch, &context.stream_lanes()) {
            Home::Elsewhere(lane) => return Ok(Some(Step::HandOver(lane))),
            Home::Outdated => return Err(taken_over()),
            Home::Here | Home::Lost(_) => {}
        }
        if let Phase::HelloReceived(hello, admission) =
            std::mem::replace(&mut self.phase, Phase::AwaitingHello)
        {
            let (relays, states_gaps) = (hello.relays.then_some(0), hello.progress.is_some());
            self.phase =
                Phase::Settling(hello, StreamOwner { stream, owner, relays, states_gaps, admission });
        }
        Ok(None)
    }

    /// Sends the welcome once everything from earlier connections of this stream is durable, and replicated if the client wants that. An earlier welcome would ask the
    /// client to send that again.
    fn welcome(&mut self, context: &SessionContext<'_, C>) -> Result<Option<Step>, Refusal> {
        let Phase::Settling(hello, owner) = &self.phase else { return Ok(None) };
        let (last_sequence, highest, is_certain) = match owner.stream.settled_now(owner.owner, hello.progress)
        {
            None => return Ok(Some(Step::AwaitStream)),
            Some(Settled::Until { last, highest, is_certain }) => (last, highest, is_certain),
            Some(Settled::Never) => {
                let why = "a lane failed; the server must be restarted";
                return Err(Refusal::new(RefusalCode::SpoolFailed, why));
            }
            Some(Settled::TakenOver) => return Err(taken_over()),
        };
        // A link goes on with the number that its next batch gets here.
        let last_sequence = if hello.relays {
            owner.stream.link_number(owner.owner).ok_or_else(taken_over)?
        } else {
            last_sequence
        };
        let ack = granted(hello, context);
        // In which lanes the stream's messages are is known only as long as nothing was unread when it moved to another lane.
        if ack == AckLevel::Replicated && last_sequence > 0 {
            let ends = || context.replicas.map(Replicas::ends).unwrap_or_default();
            let until = self.replicated_until.get_or_insert_with(ends);
            if !context.replicas.is_some_and(|replicas| replicas.have(until)) {
                return Ok(Some(Step::AwaitReplicas));
            }
        }
        self.replies.welcome(&Welcome {
            last_sequence,
            ack,
            // What the table has of a forgotten stream may be what a link, or the client itself, has brought since. A client that has sent
            // nothing has no stream that could be forgotten.
            forgotten: !is_certain && context.streams.forgotten().total > 0,
            highest: Some(highest),
            body_bytes_max: context.limits.body_bytes_max,
            message_bytes_max: context.limits.message_bytes_max,
            server: concat!("bbq ", env!("CARGO_PKG_VERSION")).to_owned(),
        });
        debug!(peer = ?context.peer, stream = %hello.stream, client = hello.client, last_sequence, "session");
        let relays = hello.relays.then_some(last_sequence);
        self.phase = Phase::Open(StreamOwner { relays, ..owner.clone() });
        Ok(None)
    }

    /// Takes every complete batch, and sends the replies.
    fn take_batches(
        &mut self,
        context: &SessionContext<'_, C>,
        input: &mut Input<'_>,
    ) -> Result<Step, Refusal> {
        let step = loop {
            match self.protocol.next(&input.bytes[input.handled..])? {
                ServerStep::NeedMore { at_least } => break Step::Read(at_least),
                ServerStep::Hello { .. } => {
                    return Err(Refusal::new(RefusalCode::Malformed, "a second hello"));
                }
                ServerStep::Batch { bytes, header, consumed } => {
                    input.has_batch = true;
                    // An acknowledgement of this batch, whose records may be known, would be one of those before it.
                    if self.replies.has_failed() {
                        return Err(lane_failed());
                    }
                    let Phase::Open(owner) = &self.phase else { return Ok(Step::AwaitAcks) };
                    if context.is_full(&self.replies, bytes.len()) {
                        // If the client has a newer connection, this one must not wait: there may be no room for hours.
                        if owner.is_taken_over() {
                            return Err(taken_over());
                        }
                        break Step::AwaitRoom(bytes.len());
                    }
                    let given_up =
                        context.scratch.verified(bytes, context.limits, |batch| batch.given_up())?;
                    let batch = Arrived { header, numbers: Numbers::of(&header, given_up), bytes };
                    if !owner.append(context, &self.replies, &batch, &mut input.order_lost)? {
                        break Step::AwaitRoom(bytes.len());
                    }
                    input.handled += consumed;
                    input.records += u64::from(header.records);
                }
            }
        };
        // Sends the welcome, and acknowledgements that need not wait for the disk.
        self.replies.flush();
        if self.replies.has_failed() {
            return Err(lane_failed());
        }
        Ok(step)
    }
}

fn lane_failed() -> Refusal {
    let why = "the lane failed with batches that were not acknowledged; send them again";
    Refusal::new(RefusalCode::SpoolFailed, why)
}

/// The level that the acknowledgements of a session will have.
fn granted<C>(hello: &Hello, context: &SessionContext<'_, C>) -> AckLevel {
    let replicas = context.replicas.filter(|replicas| !replicas.is_empty());
    match (hello.ack, replicas) {
        (AckLevel::Replicated, Some(replicas)) if !hello.relays => {
            replicas.want();
            AckLevel::Replicated
        }
        // A link that relays acknowledges batches by their number, whatever their streams.
        (level, _) => level.min(AckLevel::Durable),
    }
}

fn not_allowed(why: Denied) -> Refusal {
    let remedy = "set the client's option token (bbq send: --token-file)";
    Refusal::new(RefusalCode::NotAllowed, format!("{why}; {remedy}"))
}
