//! A session from its first byte to its end.
//!
//! ```text
//! greeting --hello--> met --+--> settling --all durable--> open --end, refusal, stop--> ending --acknowledged--> over
//!     +                     +--> another worker              +
//!     +-- nothing to do --> quiet (Left) <-- nothing to do --+
//! ```

use std::rc::Rc;
use std::sync::Arc;

use bbq_wire::StreamId;
use bbq_wire::batch::BatchLimits;
use bbq_wire::session::{AckLevel, Hello, Refusal, RefusalCode, ServerSession, ServerStep, Welcome};
use tracing::debug;

use super::context::SessionContext;
use super::owner::{Standing, StreamOwner, taken_over};
use super::replies::{Connection, Replies};
use crate::stored::stream::{Home, Settled};

/// The bytes that have arrived, and what a step did with them.
#[derive(Debug)]
pub struct Input<'a> {
    /// All bytes that are held.
    pub bytes: &'a [u8],
    /// How many of them are handled.
    pub handled: usize,
    /// Whether a batch was among them.
    pub has_batch: bool,
    /// The order of this stream is given up: earlier messages are unread in this lane, which failed.
    pub order_lost: Option<(StreamId, u32)>,
}

impl<'a> Input<'a> {
    /// Bytes of which so many were handled before.
    pub fn new(bytes: &'a [u8], handled: usize) -> Input<'a> {
        Input { bytes, handled, has_batch: false, order_lost: None }
    }
}

/// The result of a step: what the session waits for now.
#[derive(Debug)]
pub enum Step {
    /// So many bytes in all, including those that are not handled yet.
    Read(usize),
    /// Room for a batch of so many bytes.
    AwaitRoom(usize),
    /// The batches of an earlier connection are on their way to the disk; see [`SessionState::owner`].
    AwaitStream,
    /// Batches of this connection are on their way to the disk.
    AwaitAcks,
    /// Nothing here: the worker of this lane goes on with the session; see [`SessionState::hand_over`].
    HandOver(u32),
    /// Nothing: the connection ends after it has taken all replies, and the refusal.
    Over(Option<Refusal>),
}

/// A quiet session: what is needed to go on with it.
#[derive(Debug)]
pub struct Left<C> {
    /// The client.
    pub connection: C,
    /// The codec.
    pub protocol: ServerSession,
    /// `None` before the hello.
    pub standing: Option<Standing>,
}

/// A session on its way to another worker.
#[derive(Debug)]
pub struct HandedHello<C> {
    /// The client.
    pub connection: C,
    /// The codec.
    pub protocol: ServerSession,
    /// What was read.
    pub hello: Hello,
}

#[derive(Debug)]
enum Phase {
    /// No complete hello has come.
    Greeting,
    /// The hello has come.
    Met(Hello),
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
}

impl<C: Connection> SessionState<C> {
    /// A connection from which nothing has come.
    pub fn new(connection: C, limits: BatchLimits) -> SessionState<C> {
        let protocol = ServerSession::new(limits);
        SessionState::resumed(Left { connection, protocol, standing: None })
    }

    /// Goes on with a quiet session.
    pub fn resumed(left: Left<C>) -> SessionState<C> {
        let Left { connection, protocol, standing } = left;
        let (phase, level, said) = match standing {
            None => (Phase::Greeting, AckLevel::Durable, 0),
            Some(Standing { owner, level, said }) => (Phase::Open(owner), level, said),
        };
        SessionState { protocol, replies: Rc::new(Replies::new(connection, level, said)), phase }
    }

    /// Goes on after a hello that another worker has read.
    pub fn handed(handed: HandedHello<C>) -> SessionState<C> {
        let HandedHello { connection, protocol, hello } = handed;
        let replies = Rc::new(Replies::new(connection, AckLevel::Durable, 0));
        SessionState { protocol, replies, phase: Phase::Met(hello) }
    }

    /// The replies to its client.
    pub fn replies(&self) -> &Rc<Replies<C>> {
        &self.replies
    }

    /// Whether batches may come.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    /// The stream of the hello, until the session ends.
    pub fn owner(&self) -> Option<&StreamOwner> {
        match &self.phase {
            Phase::Settling(_, owner) | Phase::Open(owner) => Some(owner),
            _ => None,
        }
    }

    /// Whether the session only waits for its client, and owes nothing.
    pub fn may_leave(&self) -> bool {
        matches!(self.phase, Phase::Greeting | Phase::Open(_)) && self.replies.is_settled()
    }

    /// Takes the session apart, to go on with it later; `None` when it is not quiet.
    pub fn leave(self) -> Option<Left<C>> {
        let owner = match self.phase {
            Phase::Greeting => None,
            Phase::Open(owner) => Some(owner),
            _ => return None,
        };
        // No batch waits for the disk, so this is the only reference.
        let replies = Rc::into_inner(self.replies)?;
        let (level, said) = (replies.level.get(), replies.said.get());
        let standing = owner.map(|owner| Standing { owner, level, said });
        Some(Left { connection: replies.connection, protocol: self.protocol, standing })
    }

    /// Takes the session apart for another worker; `None` unless the last step asked for that.
    pub fn hand_over(self) -> Option<HandedHello<C>> {
        let Phase::Met(hello) = self.phase else { return None };
        let connection = Rc::into_inner(self.replies)?.connection;
        Some(HandedHello { connection, protocol: self.protocol, hello })
    }

    /// Goes on as far as possible.
    pub fn step(&mut self, context: &SessionContext<'_, C>, input: &mut Input<'_>) -> Step {
        loop {
            let went = match &mut self.phase {
                Phase::Greeting => self.hear_hello(input),
                Phase::Met(_) => self.meet(context, input),
                Phase::Settling(..) => self.welcome(context),
                Phase::Open(_) => self.take_batches(context, input).map(Some),
                Phase::Ending { waits, refusal } => {
                    if *waits && self.replies.outstanding.get() > 0 {
                        return Step::AwaitAcks;
                    }
                    return Step::Over(refusal.take());
                }
            };
            match went {
                Ok(Some(step)) => return step,
                Ok(None) => {}
                Err(refusal) => self.end(Some(refusal)),
            }
        }
    }

    /// The server stops. The readable bytes were handed in before.
    pub fn stop(&mut self) {
        match self.phase {
            // The client has said nothing, so there is no reply.
            Phase::Greeting => self.end(None),
            Phase::Ending { .. } => {}
            Phase::Met(_) | Phase::Settling(..) | Phase::Open(_) => {
                self.end(Some(Refusal::new(RefusalCode::ShuttingDown, "the server is stopping")));
            }
        }
    }

    /// The client has ended the connection: in order between two items, and not in the middle of one, of which `waiting` bytes
    /// of at least `needed` have come.
    pub fn input_ended(&mut self, waiting: usize, needed: usize) {
        let refusal = (waiting > 0).then(|| {
            let text =
                format!("the connection ended in the middle: {waiting} of at least {needed} bytes came");
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
            // A connection that was taken over is told at once, without waiting for acknowledgements.
            Phase::Open(owner) => !owner.is_taken_over(),
            _ => false,
        };
        self.phase = Phase::Ending { waits, refusal };
    }

    fn hear_hello(&mut self, input: &mut Input<'_>) -> Result<Option<Step>, Refusal> {
        match self.protocol.next(&input.bytes[input.handled..])? {
            ServerStep::NeedMore { at_least } => Ok(Some(Step::Read(at_least))),
            ServerStep::Hello { hello, consumed } => {
                input.handled += consumed;
                self.phase = Phase::Met(hello);
                Ok(None)
            }
            ServerStep::Batch { .. } => {
                Err(Refusal::new(RefusalCode::HelloExpected, "a batch before the hello"))
            }
        }
    }

    /// Makes this connection the owner of the stream, unless the stream's unread batches are in another lane or its client has a
    /// newer connection.
    fn meet(
        &mut self,
        context: &SessionContext<'_, C>,
        input: &mut Input<'_>,
    ) -> Result<Option<Step>, Refusal> {
        let Phase::Met(hello) = &self.phase else { return Ok(None) };
        let stream = context.streams.stream(hello.stream);
        let (here, passed) = (context.lane.index(), |lane| context.retention.passed(lane));
        let taken =
            context.streams.take_over(&stream, hello.epoch, here, passed, |lane| context.state_of(lane));
        let (home, owner) = taken;
        match home {
            Home::Elsewhere(lane) => return Ok(Some(Step::HandOver(lane))),
            Home::Late => return Err(taken_over()),
            Home::Lost(lane) => input.order_lost = Some((hello.stream, lane)),
            Home::Here => {}
        }
        if let Phase::Met(hello) = std::mem::replace(&mut self.phase, Phase::Greeting) {
            self.phase = Phase::Settling(hello, StreamOwner { stream, owner });
        }
        Ok(None)
    }

    /// Sends the welcome. Everything from earlier connections of this stream must be durable before, or the welcome would ask for
    /// it again.
    fn welcome(&mut self, context: &SessionContext<'_, C>) -> Result<Option<Step>, Refusal> {
        let Phase::Settling(hello, StreamOwner { stream, owner }) = &self.phase else { return Ok(None) };
        let last_sequence = match stream.settled_now(*owner) {
            None => return Ok(Some(Step::AwaitStream)),
            Some(Settled::Until(sequence)) => sequence,
            Some(Settled::Never) => {
                let why = "a lane failed; the server must be restarted";
                return Err(Refusal::new(RefusalCode::SpoolFailed, why));
            }
            Some(Settled::TakenOver) => return Err(taken_over()),
        };
        self.replies.welcome(&Welcome {
            last_sequence,
            ack: hello.ack,
            body_bytes_max: context.limits.body_bytes_max,
            message_bytes_max: context.limits.message_bytes_max,
            server: concat!("bbq ", env!("CARGO_PKG_VERSION")).to_owned(),
        });
        debug!(peer = ?context.peer, stream = %hello.stream, client = hello.client, last_sequence, "session");
        let owner = StreamOwner { stream: Arc::clone(stream), owner: *owner };
        self.phase = Phase::Open(owner);
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
                    let Phase::Open(owner) = &self.phase else { return Ok(Step::AwaitAcks) };
                    if context.is_full(&self.replies, bytes.len()) {
                        // The client has a newer connection. This one must not wait: there may be no room for hours.
                        if owner.is_taken_over() {
                            return Err(taken_over());
                        }
                        break Step::AwaitRoom(bytes.len());
                    }
                    context.scratch.verified(bytes, context.limits, |_| ())?;
                    if !owner.append(context, &self.replies, &header, bytes)? {
                        break Step::AwaitRoom(bytes.len());
                    }
                    input.handled += consumed;
                }
            }
        };
        // The welcome, and acknowledgements that no disk has to be waited for.
        self.replies.push_out();
        if self.replies.has_failed() {
            let why = "the lane failed with batches that were not acknowledged; send them again";
            return Err(Refusal::new(RefusalCode::SpoolFailed, why));
        }
        Ok(step)
    }
}
