//! A connection whose messages are told apart by a text framing.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use bbq_listen::AsyncConnection;
use bbq_wire::Peer;
use bbq_wire::framing::{Frame, FramingError, FramingRules, Lines, Suspended, Syslog, Whole};
use tokio::task::spawn_local;

use super::ParkedConnection;
use super::intake::{Intake, OpenConnection, ReadOutcome};
use crate::config::Protocol;

/// Reads of one connection before the others have their turn.
pub(super) const READS_PER_TURN_MAX: usize = 4;
/// Reads of one connection after the stop has begun: a sender that never pauses must not hold it up.
const READS_AT_STOP_MAX: usize = 64;

/// The framing of one connection.
pub(crate) enum Framer {
    Lines(Lines),
    Syslog(Syslog),
    Whole(Whole),
}

impl Framer {
    /// `None` for bbq, which has sessions.
    pub(super) fn of(protocol: Protocol) -> Option<Framer> {
        match protocol {
            Protocol::Lines => Some(Framer::Lines(Lines::new())),
            Protocol::Syslog => Some(Framer::Syslog(Syslog::new())),
            Protocol::Whole => Some(Framer::Whole(Whole::new())),
            Protocol::Bbq => None,
        }
    }

    /// Where it stands, for another process to go on.
    pub(crate) fn suspend(self) -> Suspended {
        match self {
            Framer::Lines(framer) => framer.suspend(),
            Framer::Syslog(framer) => framer.suspend(),
            Framer::Whole(framer) => framer.suspend(),
        }
    }

    /// Goes on where another stood; `None` when there is no such place.
    pub(crate) fn resume(protocol: Protocol, suspended: Suspended) -> Option<Framer> {
        match protocol {
            Protocol::Lines => Lines::resume(suspended).map(Framer::Lines),
            Protocol::Syslog => Syslog::resume(suspended).map(Framer::Syslog),
            Protocol::Whole => Whole::resume(suspended).map(Framer::Whole),
            Protocol::Bbq => None,
        }
    }

    pub(super) fn push(
        &mut self,
        rules: &FramingRules,
        input: &[u8],
        mut emit: &mut dyn FnMut(Frame<'_>),
    ) -> Result<(), FramingError> {
        match self {
            Framer::Lines(framer) => framer.push(rules, input, &mut emit),
            Framer::Syslog(framer) => return framer.push(rules, input, &mut emit),
            Framer::Whole(framer) => framer.push(rules, input, &mut emit),
        }
        Ok(())
    }

    /// The sender has ended the connection.
    pub(super) fn finish(&mut self, rules: &FramingRules, mut emit: &mut dyn FnMut(Frame<'_>)) {
        match self {
            Framer::Lines(framer) => framer.finish(rules, &mut emit),
            Framer::Syslog(framer) => framer.finish(rules, &mut emit),
            Framer::Whole(framer) => framer.finish(rules, &mut emit),
        }
    }

    /// The connection broke: for `whole`, an end that says nothing.
    pub(super) fn abort(&mut self, rules: &FramingRules, mut emit: &mut dyn FnMut(Frame<'_>)) {
        match self {
            Framer::Whole(framer) => framer.abort(&mut emit),
            _ => self.finish(rules, emit),
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Framer::Lines(framer) => framer.held_bytes(),
            Framer::Syslog(framer) => framer.held_bytes(),
            Framer::Whole(framer) => framer.held_bytes(),
        }
    }
}

/// Serves a connection that would have blocked, until its end or the server's.
pub(super) async fn serve(
    intake: Rc<Intake>,
    door: usize,
    stream: OwnedFd,
    mut framer: Framer,
    peer: Peer,
    open: OpenConnection,
) {
    let ended = read_on(&intake, door, stream, &mut framer, peer).await;
    if let Ok(Some(stream)) = ended {
        intake.hold(framer.held_bytes(), 0);
        intake.parked.borrow_mut().push(ParkedConnection {
            worker: intake.worker,
            door,
            stream,
            framer,
            peer,
        });
    } else if let Err(error) = ended {
        // Registration failed: out of memory or of epoll watches.
        if let Some(repeats) = intake.doors[door].trouble.report() {
            tracing::warn!(listener = intake.doors[door].spec.source, %error, repeats, "connection closed");
        }
        intake.abort(door, &mut framer, peer);
    }
    drop(open);
}

/// Goes on with a connection that another worker had.
pub(super) fn resume(intake: &Rc<Intake>, connection: ParkedConnection) {
    let ParkedConnection { door, stream, framer, peer, .. } = connection;
    // It is open whatever the budget says: new ones wait until others have closed.
    intake.budget.take(1);
    intake.hold(0, framer.held_bytes());
    let open = intake.connection_opened(None);
    spawn_local(serve(Rc::clone(intake), door, stream, framer, peer, open));
}

/// Answers the connection when another worker is to go on with it.
async fn read_on(
    intake: &Intake,
    door: usize,
    stream: OwnedFd,
    framer: &mut Framer,
    peer: Peer,
) -> io::Result<Option<OwnedFd>> {
    let stream = AsyncConnection::for_reading(stream)?;
    loop {
        if !intake.has_room(door) {
            tokio::select! {
                biased;
                () = intake.stopping.wait() => break,
                () = intake.wait_room(door) => {}
            }
        }
        let mut ready = tokio::select! {
            biased;
            () = intake.stopping.wait() => break,
            ready = stream.readable() => ready?,
        };
        for turn in 0..READS_PER_TURN_MAX {
            if turn > 0 && !intake.has_room(door) {
                break;
            }
            match intake.read(door, &stream, framer, peer) {
                ReadOutcome::Finished => return Ok(None),
                ReadOutcome::Drained | ReadOutcome::Blocked => {
                    // A sender's end stays visible behind this: tokio keeps it, and epoll tells it anew.
                    ready.clear_ready();
                    break;
                }
                ReadOutcome::More => {}
            }
        }
        drop(ready);
        tokio::task::consume_budget().await;
    }
    if intake.stopping.is_kept(door) {
        return Ok(Some(stream.into()));
    }
    for _ in 0..READS_AT_STOP_MAX {
        intake.wait_room(door).await;
        match intake.read(door, &stream, framer, peer) {
            ReadOutcome::Finished => return Ok(None),
            ReadOutcome::Drained | ReadOutcome::Blocked => break,
            ReadOutcome::More => {}
        }
    }
    intake.abort(door, framer, peer);
    Ok(None)
}
