//! The open text connections of one listener: a text framing splits their bytes into messages.
//!
//! They are entries of a set (`watched.rs`), served by one task.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bbq_stored::Identity;
use bbq_wire::Peer;
use tokio::sync::Notify;

use super::connection::Connection;
use super::framer::Framer;
use super::reading::ReadOutcome;
use crate::access::{AddressShare, Claim};
use crate::worker::connections::idle;
use crate::worker::connections::watched::{Served, Watched};
use crate::worker::intake::Intake;
use crate::worker::memory_budget::{Held, MemoryShare};
use crate::worker::paused::{PausedConnection, Unfinished};
use crate::worker::stream::Stream;

/// Connections that are read before the worker does anything else. With one read each, this is at most 4 MiB and takes about two
/// milliseconds, in which other clients may wait for an acknowledgement or to be accepted.
const CONNECTIONS_PER_TURN_MAX: usize = 16;
/// Reads of one connection before others are read.
pub(crate) const READS_PER_TURN_MAX: usize = 4;
/// The time for each connection that waits because its address sends too much: as many are looked at again in a second as cost a
/// worker a twentieth of it.
const RESUME_INTERVAL: Duration = Duration::from_micros(100);
/// Reads of one connection after the stop has begun: a sender that never pauses must not delay the stop.
const READS_AT_STOP_MAX: usize = 64;

/// The connections of one listener at one worker.
pub(crate) struct Connections {
    /// The index of the listener in the configuration.
    listener_index: usize,
    entries: Watched<Connection, CONNECTIONS_PER_TURN_MAX>,
    added: Notify,
    /// Keys of connections that were added during their TLS handshake, and when they were added, oldest first. A key stays
    /// here until the time for the handshake is over; then the connection is checked.
    handshakes: RefCell<VecDeque<(usize, u32)>>,
}

impl Connections {
    /// An empty set, served on the current runtime.
    pub(crate) fn new(listener_index: usize) -> io::Result<Connections> {
        Ok(Connections {
            listener_index,
            entries: Watched::new()?,
            added: Notify::new(),
            handshakes: RefCell::default(),
        })
    }

    /// The index of the listener in the configuration.
    pub(crate) fn listener_index(&self) -> usize {
        self.listener_index
    }

    /// Serves a connection until it or the server ends.
    pub(crate) fn add(&self, intake: &Intake, connection: Connection) {
        let handshaking_since = connection.stream.is_handshaking().then_some(connection.last_active);
        match self.entries.add(connection) {
            Ok(key) => {
                if let Some(since) = handshaking_since {
                    self.handshakes.borrow_mut().push_back((key, since));
                    intake.view.active_sessions.add_handshake();
                }
                self.added.notify_one();
            }
            Err((mut connection, error)) => {
                intake.listeners[self.listener_index].report_closed(&error);
                intake.abort(self.listener_index, &mut connection);
            }
        }
    }

    /// Continues a connection that another worker served before.
    pub(crate) fn resume(
        &self,
        intake: &Rc<Intake>,
        (stream, framer): (Stream, Framer),
        peer: Peer,
        address: Option<Box<AddressShare>>,
    ) {
        let mut memory = MemoryShare::default();
        // The connection is kept even beyond the memory limit: new connections wait.
        let held = Held::filled(framer.held_bytes());
        let _counted = intake.buffers.memory.set(&mut memory, held, || Identity::of_peer(peer));
        let open = Some(intake.connections.open.add(None, address));
        let last_active = intake.view.active_sessions.now();
        self.add(intake, Connection { stream, framer, peer, open, memory, last_active, waits: false });
    }

    /// Serves the connections until the server stops. Then reads what has arrived, or keeps the connections open for the next
    /// start.
    pub(crate) async fn serve(self: Rc<Self>, intake: Rc<Intake>) {
        let has_rate = intake.listeners[self.listener_index].has_rate();
        loop {
            if !intake.has_room(self.listener_index) {
                tokio::select! {
                    biased;
                    () = intake.stopping.wait() => break,
                    () = intake.wait_room(self.listener_index) => {}
                }
            }
            let turn = tokio::select! {
                biased;
                () = intake.stopping.wait() => break,
                () = self.entries.wait_over(), if has_rate => {
                    self.entries.resume();
                    continue;
                }
                turn = self.entries.serve_ready(|connection, has_ended| self.read(&intake, connection, has_ended)) => turn,
            };
            // An error means that the runtime ends.
            if turn.is_err() {
                return;
            }
        }
        loop {
            self.finish(&intake).await;
            // The listener may still add connections from its accept queue.
            self.added.notified().await;
        }
    }

    /// Reads a connection that is ready: once, or to its end if the peer has ended it.
    #[inline]
    fn read(&self, intake: &Intake, connection: &mut Connection, has_ended: bool) -> Served {
        for _ in 0..if has_ended { READS_PER_TURN_MAX } else { 1 } {
            if !intake.has_room(self.listener_index) {
                break;
            }
            if let Some(wait) = self.must_wait(intake, connection) {
                return Served::Waits(Instant::now() + wait);
            }
            match intake.read(self.listener_index, connection) {
                ReadOutcome::Finished => return Served::Closed,
                ReadOutcome::Blocked => return Served::Drained,
                ReadOutcome::Drained if !has_ended => return Served::Drained,
                ReadOutcome::Drained | ReadOutcome::More => {}
            }
        }
        Served::Ready
    }

    /// For how long a connection is not to be read, because its address sends too much. A TLS handshake brings no message.
    fn must_wait(&self, intake: &Intake, connection: &mut Connection) -> Option<Duration> {
        let listener = &intake.listeners[self.listener_index];
        if !listener.has_rate() || connection.stream.is_handshaking() {
            return None;
        }
        let wait = listener.over_rate(connection.peer);
        if wait.is_some() && !connection.waits {
            listener.ledger.add_slowed(1);
        }
        connection.waits = wait.is_some();
        // All connections of an address would come at the same time, and all but one would have to wait again.
        let waiting = u32::try_from(self.entries.waiting()).unwrap_or(u32::MAX);
        wait.map(|wait| wait.max(RESUME_INTERVAL.saturating_mul(waiting)))
    }

    /// Calls `claim` for every connection. Those that have been idle since `latest` or earlier can be closed.
    pub(crate) fn claims(&self, latest: u32, mut claim: impl FnMut(Claim<usize>)) {
        self.entries.for_each(|key, connection| {
            claim(idle::claim(Identity::of_peer(connection.peer), connection.last_active, latest, key));
        });
    }

    /// Closes an idle connection; `false` when the connection is no longer idle.
    pub(crate) fn close_idle(&self, intake: &Intake, key: usize) -> bool {
        // Bytes, or the end, may have come and not been read yet.
        let mut is_over = false;
        let is_idle = |connection: &mut Connection| {
            // It is not read, as its address sends more than it may, and others need the room.
            if connection.waits {
                return true;
            }
            match intake.read(self.listener_index, connection) {
                ReadOutcome::Blocked => true,
                ReadOutcome::Finished => {
                    is_over = true;
                    true
                }
                ReadOutcome::Drained | ReadOutcome::More => false,
            }
        };
        let Some(mut connection) = self.entries.take_if(key, is_idle) else { return false };
        if !is_over {
            intake.abort(self.listener_index, &mut connection);
            connection.stream.end();
            intake.listeners[self.listener_index].ledger.add_evicted(1);
        }
        true
    }

    /// Closes the connections that took too long for their TLS handshake, but not while the server itself has no room to read them.
    pub(crate) fn close_late(&self, intake: &Intake) {
        if !intake.has_room(self.listener_index) {
            return;
        }
        let now = intake.view.active_sessions.now();
        let seconds = intake.buffers.limits.hello_timeout_seconds;
        let mut handshakes = self.handshakes.borrow_mut();
        let is_over = |(_, since): &(usize, u32)| now.saturating_sub(*since) > seconds;
        while let Some((key, since)) = handshakes.pop_front_if(|entry| is_over(entry)) {
            intake.view.active_sessions.remove_handshake();
            let is_late = |connection: &mut Connection| {
                connection.stream.is_handshaking() && connection.last_active == since
            };
            if let Some(mut connection) = self.entries.take_if(key, is_late) {
                connection.stream.fail_late(seconds);
                let failure = connection.stream.take_failure();
                intake.listeners[self.listener_index].report_tls(connection.peer, failure);
            }
        }
    }

    /// Gives up the unfinished messages whose memory others need. Closes a connection only if nothing can follow on it.
    pub(crate) fn give_up_marked(&self, intake: &Intake) {
        let mut marked = Vec::new();
        self.entries.for_each(|key, connection| {
            if intake.buffers.memory.must_close(&connection.memory) {
                marked.push(key);
            }
        });
        for key in marked {
            let is_over = |connection: &mut Connection| {
                intake.buffers.memory.release(&mut connection.memory);
                !intake.give_up(self.listener_index, &mut connection.framer)
            };
            drop(self.entries.take_if(key, is_over));
        }
    }

    /// When the server stops: reads what has arrived and closes the connections, or keeps them for the next start.
    async fn finish(&self, intake: &Intake) {
        for connection in self.entries.take_all() {
            let can_stay = connection.stream.is_plain() || intake.stopping.keeps_tls();
            if intake.stopping.is_kept(self.listener_index) && can_stay {
                self.pause(intake, connection);
            } else {
                self.read_to_the_end(intake, connection).await;
            }
        }
    }

    fn pause(&self, intake: &Intake, connection: Connection) {
        let Connection { stream, framer, peer, open, mut memory, .. } = connection;
        // Its address keeps its share: other workers may accept until they, too, have heard of the pause.
        let address = open.and_then(|open| open.into_parts().0.into_address());
        intake.buffers.memory.release(&mut memory);
        let (worker, listener_index) = (intake.worker, self.listener_index);
        intake.connections.paused.borrow_mut().push(PausedConnection {
            worker,
            listener_index,
            stream,
            unfinished: Unfinished::Text(framer),
            peer,
            address,
        });
    }

    async fn read_to_the_end(&self, intake: &Intake, mut connection: Connection) {
        for _ in 0..READS_AT_STOP_MAX {
            intake.wait_room(self.listener_index).await;
            match intake.read(self.listener_index, &mut connection) {
                ReadOutcome::Finished => return,
                ReadOutcome::Drained | ReadOutcome::Blocked => break,
                ReadOutcome::More => {}
            }
        }
        intake.abort(self.listener_index, &mut connection);
        connection.stream.end();
    }
}
