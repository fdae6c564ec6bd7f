//! The open connections of one listener whose messages are told apart by a text framing.
//!
//! ```text
//! connections --epoll--+
//! connections --epoll--+--> the set's epoll --> tokio --> one task, a turn for those that have something
//! ```
//!
//! They are many and mostly quiet, so a connection has neither a task nor a registration with the runtime: it is a small
//! entry in a set that has one of each.
//!
//! Invariant: the set is asked again until nothing in it is ready; only then the runtime is told to wait.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use bbq_listen::AsyncConnection;
use bbq_wire::Peer;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use tokio::sync::Notify;

use super::ParkedConnection;
use super::framer::Framer;
use super::intake::{Intake, OpenConnection, ReadOutcome};
use super::slots::Slots;

/// Connections that are read before the worker looks at anything else: 4 MiB at most, some two milliseconds, while others may
/// wait for an acknowledgement or to be accepted.
const CONNECTIONS_PER_TURN_MAX: usize = 16;
/// Reads of one connection before the others have their turn.
pub(super) const READS_PER_TURN_MAX: usize = 4;
/// Reads of one connection after the stop has begun: a sender that never pauses must not hold it up.
const READS_AT_STOP_MAX: usize = 64;

/// A connection that would have blocked.
pub(super) struct Connection {
    pub(super) stream: OwnedFd,
    pub(super) framer: Framer,
    pub(super) peer: Peer,
    pub(super) open: OpenConnection,
}

/// The connections of one listener at one worker.
pub(super) struct Connections {
    /// The listener's place in its configuration.
    door: usize,
    /// It is waited for as a connection is: readable when one of its own is.
    epoll: AsyncConnection,
    entries: RefCell<Slots<Connection>>,
    added: Notify,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Whoever has something from now on makes the set ready again.
    Drained,
    /// There may be more.
    More,
}

impl Connections {
    /// An empty set, served on the current runtime.
    pub(super) fn new(door: usize) -> io::Result<Connections> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Connections {
            door,
            epoll: AsyncConnection::for_reading(epoll)?,
            entries: RefCell::default(),
            added: Notify::new(),
        })
    }

    /// The listener's place.
    pub(super) fn door(&self) -> usize {
        self.door
    }

    /// Serves a connection from now on until its end or the server's.
    pub(super) fn add(&self, intake: &Intake, mut connection: Connection) {
        let mut entries = self.entries.borrow_mut();
        let place = EventData::new_u64(entries.next() as u64);
        // By level: who has more than was read is named again.
        match epoll::add(&self.epoll, &connection.stream, place, EventFlags::IN | EventFlags::RDHUP) {
            Ok(()) => {
                entries.put(connection);
                self.added.notify_one();
            }
            // Out of memory or of epoll watches.
            Err(error) => {
                let error = io::Error::from(error);
                let door = &intake.doors[self.door];
                if let Some(repeats) = door.trouble.report() {
                    tracing::warn!(listener = door.spec.source, %error, repeats, "connection closed");
                }
                intake.abort(self.door, &mut connection.framer, connection.peer);
            }
        }
    }

    /// Goes on with a connection that another worker had.
    pub(super) fn resume(&self, intake: &Rc<Intake>, parked: ParkedConnection) {
        let ParkedConnection { stream, framer, peer, .. } = parked;
        // It is open whatever the budget says: new ones wait until others have closed.
        intake.budget.take(1);
        intake.hold(0, framer.held_bytes());
        let open = intake.connection_opened(None);
        self.add(intake, Connection { stream, framer, peer, open });
    }

    /// Serves them until the server stops, then takes what is there, or keeps them for who goes on.
    pub(super) async fn serve(self: Rc<Self>, intake: Rc<Intake>) {
        loop {
            if !intake.has_room(self.door) {
                tokio::select! {
                    biased;
                    () = intake.stopping.wait() => break,
                    () = intake.wait_room(self.door) => {}
                }
            }
            let ready = tokio::select! {
                biased;
                () = intake.stopping.wait() => break,
                ready = self.epoll.readable() => ready,
            };
            // An error means that the runtime ends.
            let Ok(mut ready) = ready else { return };
            match self.turn(&intake) {
                Turn::Drained => ready.clear_ready(),
                Turn::More => {
                    drop(ready);
                    tokio::task::yield_now().await;
                }
            }
        }
        loop {
            self.finish(&intake).await;
            // The listener may still take what was queued.
            self.added.notified().await;
        }
    }

    /// Reads those that have something, each once, or to its end if that has come.
    fn turn(&self, intake: &Intake) -> Turn {
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; CONNECTIONS_PER_TURN_MAX];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Of its errors only an interruption can happen here.
        let Ok(found) = epoll::wait(&self.epoll, &mut events[..], Some(&now)) else {
            return Turn::More;
        };
        let mut entries = self.entries.borrow_mut();
        let mut turn = if found < CONNECTIONS_PER_TURN_MAX { Turn::Drained } else { Turn::More };
        for event in &events[..found] {
            let place = event.data.u64() as usize;
            let Some(connection) = entries.at(place) else { continue };
            // An end that came before this turn makes the set ready only once.
            let has_ended = { event.flags }.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            match self.read(intake, connection, has_ended) {
                ReadOutcome::Finished => drop(entries.take(place)),
                ReadOutcome::More => turn = Turn::More,
                ReadOutcome::Drained if has_ended => turn = Turn::More,
                ReadOutcome::Drained | ReadOutcome::Blocked => {}
            }
        }
        turn
    }

    fn read(&self, intake: &Intake, connection: &mut Connection, has_ended: bool) -> ReadOutcome {
        let mut outcome = ReadOutcome::More;
        for _ in 0..if has_ended { READS_PER_TURN_MAX } else { 1 } {
            if !intake.has_room(self.door) {
                return ReadOutcome::More;
            }
            outcome = intake.read(self.door, &connection.stream, &mut connection.framer, connection.peer);
            if matches!(outcome, ReadOutcome::Finished | ReadOutcome::Blocked) {
                break;
            }
        }
        outcome
    }

    /// The server stops.
    async fn finish(&self, intake: &Intake) {
        let entries = self.entries.take();
        for connection in entries.into_values() {
            if intake.stopping.is_kept(self.door) {
                self.park(intake, connection);
            } else {
                self.read_to_the_end(intake, connection).await;
            }
        }
    }

    fn park(&self, intake: &Intake, connection: Connection) {
        let Connection { stream, framer, peer, open } = connection;
        drop(open);
        // The connection stays open, and would stay in the set.
        let _not_there = epoll::delete(&self.epoll, stream.as_fd());
        intake.hold(framer.held_bytes(), 0);
        let (worker, door) = (intake.worker, self.door);
        intake.parked.borrow_mut().push(ParkedConnection { worker, door, stream, framer, peer });
    }

    async fn read_to_the_end(&self, intake: &Intake, mut connection: Connection) {
        let Connection { stream, framer, peer, .. } = &mut connection;
        for _ in 0..READS_AT_STOP_MAX {
            intake.wait_room(self.door).await;
            match intake.read(self.door, &*stream, framer, *peer) {
                ReadOutcome::Finished => return,
                ReadOutcome::Drained | ReadOutcome::Blocked => break,
                ReadOutcome::More => {}
            }
        }
        intake.abort(self.door, framer, *peer);
    }
}
