//! Accepts connections and reads each at once: mostly its first bytes are there already, and often its end. Only what
//! would block becomes a task.

use std::io;
use std::rc::Rc;

use bbq_listen::{ACCEPTS_PER_TURN_MAX, AcceptState, Accepted, AsyncListener, Seat};
use bbq_wire::Peer;
use tokio::task::spawn_local;
use tracing::warn;

use super::connection::{self, Framer, READS_PER_TURN_MAX};
use super::intake::{Intake, ReadOutcome};
use super::session;

/// Batches of accepts after the stop has begun: what was queued is served, what keeps coming is not.
const TURNS_AT_STOP_MAX: usize = 128;

pub(super) fn register(seat: Seat) -> io::Result<AsyncListener> {
    AsyncListener::new(seat)
}

/// Accepts until the server stops, then what is queued.
pub(super) async fn serve(intake: Rc<Intake>, door: usize, mut listener: AsyncListener) {
    loop {
        let limit = match usize::try_from(intake.budget.left()).unwrap_or(usize::MAX) {
            0 => {
                report_limit(&intake, door);
                tokio::select! {
                    () = intake.budget.wait_closed() => continue,
                    () = intake.stopping.wait() => break,
                }
            }
            left => left.min(ACCEPTS_PER_TURN_MAX),
        };
        tokio::select! {
            biased;
            () = intake.stopping.wait() => break,
            turn = listener.turn(limit, |accepted| welcome(&intake, door, accepted)) => match turn {
                Ok(outcome) => report_starved(&intake, door, outcome.state),
                Err(error) => {
                    let source = &intake.doors[door].spec.source;
                    tracing::error!(listener = source, worker = intake.worker, %error, "listener failed");
                    return;
                }
            },
        }
    }
    for _ in 0..TURNS_AT_STOP_MAX {
        // Ready at once, or nothing is queued.
        let turn = listener.turn(ACCEPTS_PER_TURN_MAX, |accepted| welcome(&intake, door, accepted));
        match tokio::time::timeout(std::time::Duration::ZERO, turn).await {
            Ok(Ok(outcome)) if outcome.state == AcceptState::More => {}
            _ => return,
        }
    }
}

fn welcome(intake: &Rc<Intake>, door: usize, accepted: Accepted) {
    let peer = accepted.peer.0.map_or(Peer::Unnamed, Peer::Inet);
    let Some(mut framer) = Framer::of(intake.doors[door].spec.protocol) else {
        spawn_local(session::serve(Rc::clone(intake), door, accepted.stream, peer));
        return;
    };
    for _ in 0..READS_PER_TURN_MAX {
        if !intake.has_room(door) {
            break;
        }
        match intake.read(door, &accepted.stream, &mut framer, peer) {
            ReadOutcome::Finished => return,
            ReadOutcome::Blocked => break,
            // Also behind a short read: the end of a short connection is mostly there already.
            ReadOutcome::Drained | ReadOutcome::More => {}
        }
    }
    spawn_local(connection::serve(Rc::clone(intake), door, accepted.stream, framer, peer));
}

fn report_limit(intake: &Intake, door: usize) {
    if let Some(repeats) = intake.doors[door].trouble.report() {
        warn!(
            listener = intake.doors[door].spec.source,
            worker = intake.worker,
            connections_max = intake.budget.max(),
            repeats,
            "as many connections as file descriptors allow: new ones wait in the kernel's queue; raise the limit \
             (ulimit -n, systemd: LimitNOFILE=)"
        );
    }
}

fn report_starved(intake: &Intake, door: usize, state: AcceptState) {
    let AcceptState::Starved(errno) = state else { return };
    if let Some(repeats) = intake.doors[door].trouble.report() {
        let error = io::Error::from(errno);
        warn!(
            listener = intake.doors[door].spec.source,
            worker = intake.worker,
            %error,
            repeats,
            "cannot accept; pausing, connections wait in the kernel's queue"
        );
    }
}
