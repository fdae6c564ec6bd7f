//! A connection of the Forward Protocol: it is read, and its messages are stored and acknowledged, one after another.

use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use bbq_senders::forward::{Challenge, Finder, Found, Message, NotForward, Ping, Records, Refused};
use bbq_stored::Identity;
use bbq_wire::Peer;
use rustix::net::sockopt::set_tcp_nodelay;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, sleep_until};

use super::closed::Closed;
use super::decoded::MESSAGE_BYTES_MAX;
use super::store::Origin;
use crate::access::SharedKey;
use crate::worker::arrival::{Arrival, ArrivalOutcome};
use crate::worker::connections::open::OpenConnection;
use crate::worker::http::{Activity, Registered};
use crate::worker::intake::Intake;
use crate::worker::session::inbox::Inbox;
use crate::worker::session::socket::{SessionSocket, say_last};

/// The longest wait of an address that sends too much, before it is looked at again.
const RATE_WAIT_MAX: Duration = Duration::from_secs(1);
/// Reads of a connection after the stop has begun: a client that never pauses must not delay the stop.
const READS_AT_STOP_MAX: u32 = 64;

/// A connection while it is served.
struct Connection {
    origin: Origin,
    socket: SessionSocket,
    inbox: Inbox,
    finder: Finder,
    /// What its client has not answered yet; `None` if it may send.
    challenge: Option<Challenge>,
    /// Whether its last message had a chunk: then its client sends again what is not acknowledged.
    sends_again: bool,
    /// Whether the last message was refused as a whole.
    is_refused: bool,
    /// When the last bytes came.
    last_read: Instant,
    accepted: Instant,
    reads_at_stop: u32,
}

/// What ended a wait for bytes.
enum Wait {
    Readable,
    /// A round has begun, or memory is wanted.
    Round,
    Stopping,
    Idle,
    Late,
}

/// Serves a connection until its client or the server ends it.
pub(crate) fn begin(arrival: Arrival<'_>) -> ArrivalOutcome {
    let Arrival { intake, listener_index, accepted, peer, address, .. } = arrival;
    // Clients wait for acknowledgements, which are small. Unix sockets refuse the option.
    let _not_tcp = set_tcp_nodelay(&accepted.stream, true);
    let Some(stream) = intake.listeners[listener_index].stream(accepted.stream) else {
        return ArrivalOutcome::Closed;
    };
    let socket = match SessionSocket::new(stream) {
        Ok(socket) => socket,
        Err(error) => {
            intake.listeners[listener_index].report_closed(&error);
            return ArrivalOutcome::Closed;
        }
    };
    let open = intake.connections.open.add(accepted.open, address);
    spawn_local(serve(Connection::new(intake, (listener_index, peer), socket), open));
    ArrivalOutcome::Open
}

/// What a client is told whose address has too many connections: the protocol has no word for it.
pub(crate) fn too_many(_why: &str) -> Vec<u8> {
    Vec::new()
}

async fn serve(mut connection: Connection, open: OpenConnection) {
    let intake = Rc::clone(&connection.origin.intake);
    let place = (connection.origin.listener_index, connection.origin.peer);
    let registered = Registered::new(&intake.connections.open_http, &intake.view, place);
    intake.view.active_sessions.add();
    let Err(closed) = connection.run(&registered.activity).await;
    intake.view.active_sessions.remove();
    let listener = &intake.listeners[place.0];
    let failure = connection.socket.take_failure();
    if failure.is_some() {
        listener.report_tls(place.1, failure);
    } else {
        let is_lost = connection.is_refused || connection.inbox.waiting() > 0;
        closed.report(listener, place.1, is_lost && !connection.sends_again);
    }
    connection.inbox.release();
    // Its client may be gone.
    let _ended = connection.socket.end();
    drop((connection, open));
}

impl Connection {
    fn new(intake: &Rc<Intake>, (listener_index, peer): (usize, Peer), socket: SessionSocket) -> Connection {
        let origin = Origin { intake: Rc::clone(intake), listener_index, peer };
        let now = Instant::now();
        Connection {
            socket,
            inbox: Inbox::new(Rc::clone(intake), Identity::of_peer(peer)),
            finder: Finder::new(MESSAGE_BYTES_MAX),
            challenge: None,
            sends_again: false,
            is_refused: false,
            last_read: now,
            accepted: now,
            reads_at_stop: 0,
            origin,
        }
    }

    fn intake(&self) -> &Rc<Intake> {
        &self.origin.intake
    }

    fn shared_key(&self) -> Option<&SharedKey> {
        self.origin.listener().spec.shared_key.as_ref()
    }

    /// Takes messages until the connection ends, and returns why.
    async fn run(&mut self, activity: &Activity) -> Result<Infallible, Closed> {
        self.greet(activity).await?;
        loop {
            let found = self.message(activity).await?;
            let _open = activity.request();
            self.take(found).await?;
            tokio::task::consume_budget().await;
        }
    }

    /// Ends the handshake of TLS, and sends a HELO if the listener has a shared key.
    async fn greet(&mut self, activity: &Activity) -> Result<(), Closed> {
        if self.shared_key().is_none() {
            return Ok(());
        }
        while self.socket.is_handshaking() {
            self.receive(activity).await?;
        }
        let has_users = self.shared_key().is_some_and(SharedKey::has_users);
        let (mut nonce, mut auth) = ([0; _], [0; _]);
        getrandom::fill(&mut nonce).and_then(|()| getrandom::fill(&mut auth)).map_err(|_| Closed::Failed)?;
        let challenge = Challenge { nonce, auth: has_users.then_some(auth) };
        self.send(&challenge.helo()).await?;
        self.challenge = Some(challenge);
        Ok(())
    }

    /// Waits until a message is there as a whole.
    async fn message(&mut self, activity: &Activity) -> Result<Found, Closed> {
        loop {
            let (held, handled) = self.inbox.take();
            let found = self.finder.find(&held[handled..]);
            self.inbox.put_back(held, handled);
            match found? {
                Some(found) => return Ok(found),
                None => self.receive(activity).await?,
            }
        }
    }

    /// Takes the message at the front of what is held.
    async fn take(&mut self, found: Found) -> Result<(), Closed> {
        // The buffer is taken out and put back, so that records can be borrowed from it.
        let (held, handled) = self.inbox.take();
        self.inbox.set_evictable(false);
        let taken = match Message::read(&held[handled..], found) {
            Ok(Message::Empty) => Ok(()),
            Ok(Message::Ping(ping)) => self.answer(&ping).await,
            Ok(Message::Records(_)) if self.challenge.is_some() => Err(Refused::NoHandshake.into()),
            Ok(Message::Records(records)) => self.take_records(&records, found.bytes).await,
            Err(error) => Err(error.into()),
        };
        self.is_refused = taken.is_err();
        self.inbox.put_back(held, handled + found.bytes);
        self.inbox.set_evictable(true);
        taken
    }

    async fn take_records(&mut self, records: &Records<'_>, message_bytes: usize) -> Result<(), Closed> {
        self.sends_again = records.chunk.is_some();
        self.origin.store(records, message_bytes).await?;
        match &records.chunk {
            Some(chunk) => self.send(&chunk.answer()).await,
            None => Ok(()),
        }
    }

    /// Answers a PING.
    async fn answer(&mut self, ping: &Ping<'_>) -> Result<(), Closed> {
        let (Some(challenge), Some(key)) = (&self.challenge, self.shared_key()) else {
            // Nothing was asked.
            return Err(NotForward::Malformed("a PING without a HELO before it").into());
        };
        match challenge.check(ping, key.key(), |user| key.password(user)) {
            Ok(pong) => {
                self.send(&pong).await?;
                self.challenge = None;
                Ok(())
            }
            Err((refused, pong)) => {
                // Its client may be gone.
                let _told = say_last(&self.socket, &pong).await;
                Err(refused.into())
            }
        }
    }

    async fn send(&self, bytes: &[u8]) -> Result<(), Closed> {
        let seconds = self.intake().buffers.limits.batch_timeout_seconds;
        let sent = tokio::time::timeout(Duration::from_secs(seconds.into()), self.socket.send_all(bytes));
        match sent.await {
            Ok(Ok(())) => Ok(()),
            // It does not read, or is gone.
            Ok(Err(_)) | Err(_) => Err(Closed::ByClient),
        }
    }

    /// Waits for bytes, and adds them to those held; or for the end of a handshake of TLS.
    async fn receive(&mut self, activity: &Activity) -> Result<(), Closed> {
        let intake = Rc::clone(self.intake());
        let mut is_readable = true;
        loop {
            if self.inbox.must_close() {
                return Err(Closed::NoMemory);
            }
            if !intake.stopping.has_begun() {
                self.wait_turn(&intake).await;
            }
            if is_readable || self.socket.has_more() {
                let was_handshaking = self.socket.is_handshaking();
                // A client that waits for a HELO sends nothing behind its handshake of TLS.
                if self.read(&intake)? || was_handshaking != self.socket.is_handshaking() {
                    return Ok(());
                }
                if intake.stopping.has_begun() && self.inbox.waiting() == 0 {
                    return Err(Closed::Stopping);
                }
            }
            is_readable = match self.wait(&intake, activity).await? {
                Wait::Readable | Wait::Stopping => true,
                Wait::Round => {
                    self.inbox.shrink();
                    false
                }
                Wait::Idle => return Err(Closed::Idle),
                Wait::Late => return Err(self.late(&intake)),
            };
        }
    }

    /// Waits until the listener has room, and its address may send more.
    async fn wait_turn(&mut self, intake: &Intake) {
        let turn = async {
            intake.wait_room(self.origin.listener_index).await;
            while let Some((wait, _)) = self.origin.listener().slowed(self.origin.peer) {
                sleep(wait.min(RATE_WAIT_MAX)).await;
            }
        };
        let before = Instant::now();
        tokio::select! {
            biased;
            () = turn => {}
            () = intake.stopping.wait() => {}
        }
        // The server caused this delay: it does not count towards the client's time-out.
        self.last_read += before.elapsed();
    }

    /// Reads once. Returns `false` when nothing is there.
    fn read(&mut self, intake: &Intake) -> Result<bool, Closed> {
        if intake.stopping.has_begun() {
            self.reads_at_stop += 1;
            if self.reads_at_stop > READS_AT_STOP_MAX {
                return Err(Closed::Stopping);
            }
        }
        let expected = self.finder.expected_bytes().min(MESSAGE_BYTES_MAX);
        match self.inbox.receive(&self.socket, expected) {
            Ok(Some(0)) | Err(_) => Err(Closed::ByClient),
            Ok(Some(_)) => {
                self.last_read = Instant::now();
                if self.inbox.account() { Ok(true) } else { Err(Closed::NoMemory) }
            }
            Ok(None) => Ok(false),
        }
    }

    /// Waits for bytes, or for what ends the wait. After the stop has begun, only the rest of a message is waited for.
    async fn wait(&self, intake: &Intake, activity: &Activity) -> Result<Wait, Closed> {
        let limits = &intake.buffers.limits;
        let is_amid = self.inbox.waiting() > 0;
        let late = if self.socket.is_handshaking() || self.challenge.is_some() {
            Some(self.accepted + Duration::from_secs(limits.hello_timeout_seconds.into()))
        } else {
            is_amid.then(|| self.last_read + Duration::from_secs(limits.batch_timeout_seconds.into()))
        };
        let late = match intake.stopping.grace_end() {
            Some(grace) => Some(late.map_or(grace, |late| late.min(grace))),
            None => late,
        };
        let is_late = async {
            match late {
                Some(late) => sleep_until(late).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = intake.stopping.wait(), if !intake.stopping.has_begun() => Ok(Wait::Stopping),
            () = intake.rounds.notified(), if is_amid => Ok(Wait::Round),
            () = activity.evicted(), if !is_amid => Ok(Wait::Idle),
            readable = self.socket.readable() => match readable {
                Ok(mut readable) => {
                    // The next read may find less than all; then it is tried again before the next wait.
                    readable.clear_ready();
                    Ok(Wait::Readable)
                }
                Err(_) => Err(Closed::ByClient),
            },
            () = is_late => Ok(Wait::Late),
        }
    }

    fn late(&self, intake: &Intake) -> Closed {
        let limits = &intake.buffers.limits;
        if intake.stopping.has_begun() {
            return Closed::Stopping;
        }
        if self.socket.is_handshaking() {
            self.socket.fail_late(limits.hello_timeout_seconds);
        }
        if self.socket.is_handshaking() || self.challenge.is_some() {
            return Closed::LateHandshake { seconds: limits.hello_timeout_seconds };
        }
        Closed::Late { seconds: limits.batch_timeout_seconds }
    }
}
