//! A session while it has a task. The task moves bytes between the socket and the [`SessionState`], and waits for what the state
//! asks for. It closes the session when the client takes too long, or when others need the memory.

use std::io::ErrorKind;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bbq_stored::Identity;
use bbq_wire::Peer;
use bbq_wire::session::{AckLevel, Refusal, RefusalCode};
use tracing::{debug, warn};

use super::context::SessionContext;
use super::inbox::Inbox;
use super::rounds::LastBatch;
use super::socket::{SessionSocket, flushed, refuse, unsent};
use super::state::{HandedHello, Input, SessionState, Step, SuspendedSession};
use crate::worker::intake::Intake;
use crate::worker::limits::{IntakeLimits, READ_BYTES};
use crate::worker::local_listener::LocalListener;

/// Reads of one session before other tasks run.
const READS_PER_TURN_MAX: usize = 4;
/// Bytes that a session may put into the lane before other tasks run: as many as one read of text brings at most. Small compared
/// with the lane's buffer, so that each session gets its share when there is room again.
const TURN_BYTES_MAX: usize = READ_BYTES;
/// How long a client waits for its welcome while the next servers lack what it sent before: less than it waits for any welcome, so that
/// it is told why there is none.
const REPLICAS_PATIENCE: Duration = Duration::from_secs(5);
/// How long a session of an address that sends too much waits at a time. Then it looks again whether others need its memory.
const RATE_WAIT_MAX: Duration = Duration::from_secs(1);
/// Reads after the stop has begun.
const READS_AT_STOP_MAX: usize = 64;

/// How a wait for room ended.
enum Waited {
    Done,
    Stopping,
    TooLong,
}

/// How a session left its task.
pub(crate) enum Outcome {
    Ended,
    /// The session needs no task for now.
    Quiet(SuspendedSession<SessionSocket>),
    /// The worker of this lane continues the session, with the bytes that came after the hello.
    Handed(u32, HandedHello<SessionSocket>, Vec<u8>),
}

pub(crate) struct SessionTask {
    intake: Rc<Intake>,
    pub(crate) listener_index: usize,
    pub(crate) peer: Peer,
    inbox: Inbox,
    /// When the last batch came.
    last_batch: LastBatch,
    /// Whether the socket has not been read yet.
    is_new: bool,
    /// When bytes last came; before the hello, when the client connected; see `ActiveSessions::now`.
    pub(crate) last_active: u32,
    /// Bytes of batches that were taken since other tasks last ran.
    turn_bytes: usize,
}

impl SessionTask {
    pub(crate) fn new(
        intake: Rc<Intake>,
        listener_index: usize,
        peer: Peer,
        last_active: u32,
    ) -> SessionTask {
        SessionTask {
            inbox: Inbox::new(Rc::clone(&intake), Identity::of_peer(peer)),
            // A client that sends only a hello is quiet right after the welcome.
            last_batch: intake.rounds.no_batch(),
            is_new: true,
            intake,
            listener_index,
            peer,
            last_active,
            turn_bytes: 0,
        }
    }

    /// Starts with the bytes that another worker has received.
    pub(crate) fn with_held(mut self, held: Vec<u8>) -> SessionTask {
        self.inbox.begin_with(held);
        self
    }

    /// Serves a session until it ends, is quiet, or moves to another worker.
    pub(crate) async fn run(&mut self, mut state: SessionState<SessionSocket>) -> Outcome {
        self.note_identity(&state);
        loop {
            let was_open = state.is_open();
            let step = self.step(&mut state);
            if state.is_open() && !was_open {
                self.note_identity(&state);
                self.last_active = self.intake.view.active_sessions.now();
            }
            // A batch that is larger than a turn counts as several turns.
            while self.turn_bytes >= TURN_BYTES_MAX {
                self.turn_bytes -= TURN_BYTES_MAX;
                tokio::task::yield_now().await;
            }
            match step {
                Step::Read(needed) => {
                    if self.read(&mut state, needed).await == NextStep::Suspend {
                        let suspended = state.suspend();
                        return suspended.map_or(Outcome::Ended, Outcome::Quiet);
                    }
                }
                Step::AwaitRoom(bytes) => {
                    self.inbox.set_evictable(false);
                    Box::pin(self.wait_room(&mut state, bytes)).await;
                    self.inbox.set_evictable(true);
                }
                Step::AwaitStream => Box::pin(self.wait_stream(&mut state)).await,
                Step::AwaitReplicas => Box::pin(self.wait_replicas(&mut state)).await,
                Step::AwaitAcks => {
                    // Other sessions may need the buffer while this one waits.
                    self.inbox.release();
                    state.replies().connection.woken().await;
                }
                Step::HandOver(lane) => {
                    let held = self.inbox.unhandled();
                    self.inbox.release();
                    let handed = state.hand_over();
                    return handed.map_or(Outcome::Ended, |handed| Outcome::Handed(lane, handed, held));
                }
                Step::Close(refusal) => {
                    self.inbox.release();
                    Box::pin(self.close(&state, refusal)).await;
                    return Outcome::Ended;
                }
            }
        }
    }

    /// Notes whose memory the bytes of this session take.
    fn note_identity(&mut self, state: &SessionState<SessionSocket>) {
        let admission = state.owner().and_then(|owner| owner.admission.as_deref());
        self.inbox.set_identity(Identity::of(admission.map(|shown| shown.identity()), self.peer));
    }

    /// Passes the held bytes to the state.
    fn step(&mut self, state: &mut SessionState<SessionSocket>) -> Step {
        // The buffer is taken out and put back, so that a batch can be borrowed from it.
        let (held, before) = self.inbox.take();
        let mut input = Input::new(&held, before);
        let step = state.step(&self.context(), &mut input);
        let Input { handled, has_batch, records, order_lost, .. } = input;
        if has_batch {
            self.last_batch = self.intake.rounds.note_batch(&self.intake.view.active_sessions);
        }
        if let Some((_, lane)) = order_lost.first()
            && let Some(repeats) = self.intake.disk.order_lost.report()
        {
            warn!(peer = ?self.peer, lane, repeats, "cannot keep the order of a stream: earlier messages are in a lane that failed");
        }
        if records > 0 {
            // A batch unpacks to at most 255 times its bytes, so only the number of its messages matters.
            let received = (handled - before) as u64;
            self.listener().add_taken(self.peer, records, 0, received);
        }
        self.turn_bytes += handled - before;
        self.inbox.put_back(held, handled);
        step
    }

    fn listener(&self) -> &LocalListener {
        &self.intake.listeners[self.listener_index]
    }

    fn context(&self) -> SessionContext<'_, SessionSocket> {
        self.intake.session_context(self.listener_index, self.peer)
    }

    /// Waits for bytes and appends them to those held. Tells the state when no more will come.
    async fn read(&mut self, state: &mut SessionState<SessionSocket>, needed: usize) -> NextStep {
        let received = tokio::select! {
            biased;
            received = self.receive(state, needed) => received,
            () = unsent(state.replies()) => return NextStep::Continue,
        };
        match received {
            Received::Some => {}
            Received::Quiet => return NextStep::Suspend,
            Received::Evicted => state.refuse(self.evicted(needed)),
            Received::TimedOut if state.is_open() => state.refuse(late_batch(self.intake.buffers.limits)),
            Received::TimedOut => {
                let socket = &state.replies().connection;
                if socket.is_handshaking() {
                    socket.fail_late(self.intake.buffers.limits.hello_timeout_seconds);
                }
                state.refuse(late_hello(self.intake.buffers.limits));
            }
            Received::End => state.input_ended(self.inbox.waiting(), needed),
            Received::Stopping => self.finish_reading(state),
        }
        NextStep::Continue
    }

    /// Takes what is in the socket when the server stops.
    fn finish_reading(&mut self, state: &mut SessionState<SessionSocket>) {
        for _ in 0..READS_AT_STOP_MAX {
            if !state.is_open() {
                break;
            }
            let Step::Read(needed) = self.step(state) else { break };
            match self.inbox.receive(&state.replies().connection, needed) {
                Ok(Some(1..)) => {}
                _ => break,
            }
        }
        state.stop();
    }

    /// Waits until there is room for a batch of `batch_bytes`, or the client has a newer connection. A stop ends the wait if the
    /// client sends unacknowledged batches again.
    async fn wait_room(&mut self, state: &mut SessionState<SessionSocket>, batch_bytes: usize) {
        let Some(owner) = state.owner().cloned() else { return };
        let is_sent_again = state.replies().level() >= AckLevel::Durable;
        let room = async {
            while self.context().is_full(state.replies(), batch_bytes) {
                self.intake.disk.room.notified().await;
            }
        };
        // While the next servers are away it is not noticed that a client has gone: a session does not wait for them for ever.
        let patience = Duration::from_secs(self.intake.buffers.limits.batch_timeout_seconds.into());
        let is_replicating = state.replies().replicating() > 0;
        let waited = tokio::select! {
            biased;
            () = room => Waited::Done,
            () = owner.taken_over() => Waited::Done,
            () = self.intake.stopping.wait(), if is_sent_again => Waited::Stopping,
            () = tokio::time::sleep(patience), if is_replicating => Waited::TooLong,
        };
        match waited {
            Waited::Done => {}
            Waited::Stopping => state.stop(),
            Waited::TooLong => {
                let why = "the next server lacks too much of what this session sent; see this server's sink bbq: in its status";
                state.refuse(Refusal::new(RefusalCode::Busy, why));
            }
        }
        // The server caused this delay: it does not count towards the client's time-out.
        self.last_active = self.intake.view.active_sessions.now();
    }

    /// Waits until everything from an earlier connection is durable. A stop ends the wait, because it may take a long time
    /// and the client connects again.
    async fn wait_stream(&self, state: &mut SessionState<SessionSocket>) {
        let Some((stream, owner)) = state.owner().map(|owner| (Arc::clone(&owner.stream), owner.owner))
        else {
            return;
        };
        tokio::select! {
            biased;
            () = self.intake.stopping.wait() => state.stop(),
            _settled = stream.settled(owner) => {}
        }
    }

    /// Waits until the next servers have what came over earlier connections, for as long as the client waits for its welcome.
    async fn wait_replicas(&self, state: &mut SessionState<SessionSocket>) {
        let Some(owner) = state.owner().cloned() else { return };
        let replicated = async {
            while !state.is_replicated(&self.intake.disk.replicas) {
                self.intake.disk.room.notified().await;
            }
        };
        let is_stopping = tokio::select! {
            biased;
            () = self.intake.stopping.wait() => true,
            () = owner.taken_over() => return,
            () = replicated => return,
            () = tokio::time::sleep(REPLICAS_PATIENCE) => false,
        };
        if is_stopping {
            return state.stop();
        }
        let why = "the next server does not have yet what this stream sent before; see this server's sink bbq: in its status";
        state.refuse(Refusal::new(RefusalCode::Busy, why));
    }

    /// Sends all replies and the refusal, and closes.
    async fn close(&self, state: &SessionState<SessionSocket>, refusal: Option<Refusal>) {
        let replies = state.replies();
        let failure = replies.connection.take_failure();
        if failure.is_some() || replies.connection.is_handshaking() {
            // After a failure of TLS the client cannot read a refusal.
            return self.intake.listeners[self.listener_index].report_tls(self.peer, failure);
        }
        let patience = Duration::from_secs(self.intake.buffers.limits.batch_timeout_seconds.into());
        let flushed = tokio::time::timeout(patience, flushed(replies)).await;
        let mut closed = flushed.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
        if let Some(refusal) = refusal
            && closed.is_ok()
        {
            if refusal.code != RefusalCode::ShuttingDown {
                self.intake.listeners[self.listener_index].report_refused(self.peer, &refusal);
            }
            closed = refuse(&replies.connection, &refusal).await;
        }
        if let Err(error) = closed {
            debug!(peer = ?self.peer, %error, "session ended");
        }
    }

    /// The refusal of a session whose memory others need.
    fn evicted(&self, needed: usize) -> Refusal {
        self.intake.listeners[self.listener_index].ledger.add_evicted(1);
        if self.intake.buffers.memory.is_beyond(needed) {
            let bytes_max = self.intake.buffers.limits.unfinished_bytes_max;
            let text = format!(
                "the batch has {needed} bytes, and a worker of this server has {bytes_max} for all unfinished ones; raise \
                 unfinished_bytes_max, or the memory limit of the server"
            );
            return Refusal::new(RefusalCode::Busy, text);
        }
        let text = "unfinished batches hold too much memory, and this sender holds the most; send the batch again later";
        Refusal::new(RefusalCode::Busy, text)
    }

    async fn receive(&mut self, state: &SessionState<SessionSocket>, needed: usize) -> Received {
        let intake = Rc::clone(&self.intake);
        let socket = &state.replies().connection;
        loop {
            if intake.stopping.has_begun() {
                return Received::Stopping;
            }
            if self.inbox.must_close() {
                return Received::Evicted;
            }
            if self.is_late(state) {
                return Received::TimedOut;
            }
            let mut ready = None;
            // A new task reads at once, as it was begun because there is something to read.
            if !std::mem::take(&mut self.is_new) && !socket.has_more() {
                if self.is_quiet(state) {
                    return Received::Quiet;
                }
                ready = tokio::select! {
                    biased;
                    // A round has begun, or the server stops.
                    () = intake.rounds.notified() => {
                        self.inbox.shrink();
                        continue;
                    }
                    ready = socket.readable() => match ready {
                        Ok(ready) => Some(ready),
                        Err(_) => return Received::End,
                    },
                };
            }
            if state.is_open()
                && let Some((wait, _)) = self.listener().slowed(self.peer)
            {
                tokio::select! {
                    biased;
                    () = intake.stopping.wait() => {}
                    () = tokio::time::sleep(wait.min(RATE_WAIT_MAX)) => {}
                }
                // The server caused this delay: it does not count towards the client's time-out.
                self.last_active = intake.view.active_sessions.now();
                continue;
            }
            match self.receive_now(state, needed) {
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

    fn receive_now(&mut self, state: &SessionState<SessionSocket>, needed: usize) -> Turn {
        for _ in 0..READS_PER_TURN_MAX {
            let received = self.inbox.receive(&state.replies().connection, needed);
            if state.is_open() {
                self.last_active = self.intake.view.active_sessions.now();
            }
            match received {
                Ok(Some(0)) | Err(_) => return Turn::Received(Received::End),
                // A complete batch is handled first; what remains is counted after that.
                Ok(Some(_)) if self.inbox.waiting() >= needed => return Turn::Received(Received::Some),
                Ok(Some(_)) if !self.inbox.account() => return Turn::Received(Received::Evicted),
                Ok(Some(_)) => {}
                // The buffer may have grown for bytes that did not come.
                Ok(None) if self.inbox.waiting() > 0 && !self.inbox.account() => {
                    return Turn::Received(Received::Evicted);
                }
                Ok(None) => return Turn::Drained,
            }
        }
        Turn::More
    }

    /// Whether the client takes too long for a hello or a batch, or does not read replies.
    fn is_late(&self, state: &SessionState<SessionSocket>) -> bool {
        let waited = self.intake.view.active_sessions.now().saturating_sub(self.last_active);
        if state.is_open() {
            (self.inbox.waiting() > 0 || !state.replies().is_sent())
                && waited > self.intake.buffers.limits.batch_timeout_seconds
        } else {
            waited > self.intake.buffers.limits.hello_timeout_seconds
        }
    }

    /// Whether the session needs no task: nothing is half received or owed, and no batch came for a while.
    fn is_quiet(&self, state: &SessionState<SessionSocket>) -> bool {
        self.intake.rounds.is_long_ago(self.last_batch) && self.inbox.waiting() == 0 && state.can_suspend()
    }
}

/// What the task does after a wait for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    Continue,
    /// The session needs no task for now.
    Suspend,
}

/// How waiting for bytes ended.
enum Received {
    Some,
    /// The session needs no task for now.
    Quiet,
    /// The client has ended the connection, or is gone.
    End,
    Stopping,
    /// Unfinished batches hold too much memory, and this batch is the oldest.
    Evicted,
    /// The client takes too long.
    TimedOut,
}

/// How a turn of reading ended.
enum Turn {
    Received(Received),
    /// Not enough, and nothing more is there.
    Drained,
    /// Not enough, and there may be more.
    More,
}

/// The refusal of a client that sends no complete hello in time.
pub(crate) fn late_hello(limits: IntakeLimits) -> Refusal {
    let seconds = limits.hello_timeout_seconds;
    Refusal::new(RefusalCode::Busy, format!("no hello within {seconds} s of the connection; connect again"))
}

fn late_batch(limits: IntakeLimits) -> Refusal {
    let seconds = limits.batch_timeout_seconds;
    Refusal::new(
        RefusalCode::Busy,
        format!(
            "for {seconds} s nothing arrived in the middle of a batch, or replies were not read; send unacknowledged batches again"
        ),
    )
}
