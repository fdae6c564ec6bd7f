//! Accepts connections and reads each at once: mostly its first bytes are there already, and often its end. Only what
//! would block stays: text among the listener's connections, a session among the quiet ones.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bbq_listen::{ACCEPTS_PER_TURN_MAX, AcceptOutcome, AcceptState, Accepted, AsyncListener, Distribution};
use bbq_wire::Peer;
use rustix::net::sockopt::set_tcp_nodelay;
use tracing::warn;

use super::connection::Connection;
use super::connections::{Connections, READS_PER_TURN_MAX};
use super::idle::EVICTIONS_MAX;
use crate::worker::holders::Hold;
use crate::worker::session::quiet::QuietSessions;
use crate::worker::session::tasks;
use crate::worker::text::framer::Framer;
use crate::worker::text::intake::{Intake, ReadOutcome};

/// Connections accepted after the stop has begun: what was queued is served, what keeps coming is not.
const ACCEPTS_AT_STOP_MAX: usize = 8192;
/// How long a look for what the acceptor thread of a handoff hands over at a stop is put off: as long as it pauses itself.
const HANDED_PAUSE: Duration = Duration::from_millis(1);

/// How often a worker looks whether somebody waits while as many connections are open as may be.
const ROOM_INTERVAL: Duration = Duration::from_millis(500);

/// Where connections stay that would block.
pub(crate) struct IdleConnections {
    /// Of this listener.
    pub(crate) connections: Rc<Connections>,
    /// Of this worker.
    pub(crate) sessions: Rc<QuietSessions>,
}

/// Accepts until the server stops, then what is queued.
pub(crate) async fn serve(intake: Rc<Intake>, idle: IdleConnections, mut listener: AsyncListener) {
    let listener_index = idle.connections.listener_index();
    let is_handed = matches!(listener.seat().distribution(), Distribution::Handoff(_));
    loop {
        if intake.budget.is_used_up() {
            report_limit(&intake, listener_index);
            want_room(&intake, &listener);
            tokio::select! {
                () = intake.budget.wait_closed() => {}
                () = tokio::time::sleep(ROOM_INTERVAL) => continue,
                () = intake.stopping.wait() => break,
            }
        }
        tokio::select! {
            biased;
            () = intake.stopping.wait() => break,
            turn = turn(&intake, &idle, &mut listener) => match turn {
                Ok(outcome) => report_starved(&intake, listener_index, outcome.state),
                Err(error) => {
                    return intake.listeners[listener_index].fail(intake.worker, &error);
                }
            },
        }
    }
    // What was handed to this worker is in nobody else's reach, and what is queued is not taken then.
    if !intake.stopping.is_kept(listener_index) || is_handed {
        finish(&intake, &idle, &mut listener).await;
    }
}

/// Has connections closed for those that wait, if there are any.
fn want_room(intake: &Intake, listener: &AsyncListener) {
    let waiting = listener.seat().socket().queue().map_or(0, |state| state.queue);
    if waiting > 0 {
        intake.budget.want_room(waiting.min(EVICTIONS_MAX as u64));
    }
}

/// Accepts a batch within the budget.
async fn turn(
    intake: &Rc<Intake>,
    idle: &IdleConnections,
    listener: &mut AsyncListener,
) -> io::Result<AcceptOutcome> {
    let unused = Cell::new(0);
    let claim = || {
        unused.set(intake.budget.claim(ACCEPTS_PER_TURN_MAX));
        unused.get()
    };
    let outcome = listener.turn_within(claim, |accepted| {
        if welcome(intake, idle, accepted) == Welcomed::Stays {
            unused.set(unused.get() - 1);
        }
    });
    let outcome = outcome.await;
    intake.budget.give_back(unused.get());
    outcome
}

/// Takes what is queued when the server stops.
async fn finish(intake: &Rc<Intake>, idle: &IdleConnections, listener: &mut AsyncListener) {
    let mut accepts = 0;
    while accepts < ACCEPTS_AT_STOP_MAX {
        // Those that are open end soon, as they learn of the stop, too.
        intake.budget.wait_closed().await;
        let claimed = intake.budget.claim(ACCEPTS_PER_TURN_MAX);
        let mut unused = claimed;
        let outcome = listener.turn_now(claimed, |accepted| {
            if welcome(intake, idle, accepted) == Welcomed::Stays {
                unused -= 1;
            }
        });
        intake.budget.give_back(unused);
        match outcome {
            Ok(outcome) if outcome.state == AcceptState::More => accepts += outcome.accepted.max(1),
            Ok(_) if is_handed_more(intake, idle.connections.listener_index(), listener) => {
                tokio::time::sleep(HANDED_PAUSE).await
            }
            _ => return,
        }
        tokio::task::yield_now().await;
    }
}

/// Whether the acceptor thread of a handoff has not come to the end of the queue yet. In a pause it has ended.
fn is_handed_more(intake: &Intake, listener_index: usize, listener: &AsyncListener) -> bool {
    let seat = listener.seat();
    matches!(seat.distribution(), Distribution::Handoff(_))
        && !intake.stopping.is_kept(listener_index)
        && seat.socket().queue().is_some_and(|state| state.queue > 0)
}

/// What became of a connection right after it was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Welcomed {
    /// It was read to its end.
    Finished,
    /// It waits for more.
    Stays,
}

fn welcome(intake: &Rc<Intake>, idle: &IdleConnections, accepted: Accepted) -> Welcomed {
    let listener_index = idle.connections.listener_index();
    let peer = accepted.peer.0.map_or(Peer::Unnamed, Peer::Inet);
    let Some(framer) = Framer::of(intake.listeners[listener_index].spec.protocol) else {
        // An acknowledgement is small and waited for: not until the one before it is known to have come (RFC 896). Unix
        // sockets have no such wait.
        let _not_tcp = set_tcp_nodelay(&accepted.stream, true);
        let open = intake.open.add(accepted.open);
        tasks::begin(intake, &idle.sessions, listener_index, accepted.stream, peer, open);
        return Welcomed::Stays;
    };
    let heard = intake.view.active_sessions.now();
    let hold = Hold::default();
    let mut connection = Connection { stream: accepted.stream, framer, peer, open: None, hold, heard };
    for _ in 0..READS_PER_TURN_MAX {
        if !intake.has_room(listener_index) {
            break;
        }
        match intake.read(listener_index, &mut connection) {
            ReadOutcome::Finished => return Welcomed::Finished,
            ReadOutcome::Blocked => break,
            // Also behind a short read: the end of a short connection is mostly there already.
            ReadOutcome::Drained | ReadOutcome::More => {}
        }
    }
    connection.open = Some(intake.open.add(accepted.open));
    idle.connections.add(intake, connection);
    Welcomed::Stays
}

fn report_limit(intake: &Intake, listener_index: usize) {
    if let Some(repeats) = intake.listeners[listener_index].accept_problems.report() {
        warn!(
            listener = intake.listeners[listener_index].spec.source,
            worker = intake.worker,
            connections_max = intake.budget.max(),
            repeats,
            "as many connections as file descriptors allow: new ones wait in the kernel's queue until one is closed or idle \
             for long enough (evict_idle_seconds); raise the limit (ulimit -n, systemd: LimitNOFILE=)"
        );
    }
}

fn report_starved(intake: &Intake, listener_index: usize, state: AcceptState) {
    let AcceptState::Starved(errno) = state else { return };
    if let Some(repeats) = intake.listeners[listener_index].accept_problems.report() {
        let error = io::Error::from(errno);
        warn!(
            listener = intake.listeners[listener_index].spec.source,
            worker = intake.worker,
            %error,
            repeats,
            "cannot accept; pausing, connections wait in the kernel's queue"
        );
    }
}
