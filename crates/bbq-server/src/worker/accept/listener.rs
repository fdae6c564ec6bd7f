//! Accepts connections and reads each at once: usually the first bytes have arrived already, and often the end. Only a
//! connection that would block is kept: text in the listener's set of connections, a session in the set of quiet sessions.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bbq_listen::{ACCEPTS_PER_BATCH_MAX, AcceptOutcome, AcceptState, Accepted, AsyncListener, Distribution};
use bbq_wire::Peer;
use rustix::net::sockopt::set_tcp_nodelay;
use tracing::warn;

use super::connection::Connection;
use super::connections::{Connections, READS_PER_TURN_MAX};
use super::idle::EVICTIONS_MAX;
use crate::worker::holders::Hold;
use crate::worker::http;
use crate::worker::intake::Intake;
use crate::worker::session::quiet::QuietSessions;
use crate::worker::session::tasks;
use crate::worker::text::framer::Framer;
use crate::worker::text::reading::ReadOutcome;

/// Most connections accepted after the stop has begun: queued ones are served, an endless flow is not.
const ACCEPTS_AT_STOP_MAX: usize = 8192;
/// During a stop, the pause between two checks for connections from a handoff's acceptor thread. That thread pauses as long.
const HANDED_PAUSE: Duration = Duration::from_millis(1);

/// At the limit of connections, how often a worker checks whether new ones wait.
const ROOM_INTERVAL: Duration = Duration::from_millis(500);

/// The sets that keep connections which would block.
pub(crate) struct IdleConnections {
    /// Text connections of this listener.
    pub(crate) connections: Rc<Connections>,
    /// Quiet sessions of this worker.
    pub(crate) sessions: Rc<QuietSessions>,
}

/// Accepts until the server stops, then what is queued.
pub(crate) async fn serve(intake: Rc<Intake>, idle: IdleConnections, mut listener: AsyncListener) {
    let listener_index = idle.connections.listener_index();
    let is_handed = matches!(listener.worker_listener().distribution(), Distribution::Handoff(_));
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
    // No other worker can take connections that were handed to this worker. The queue of a kept listener is left alone.
    let what = if !intake.stopping.is_kept(listener_index) || is_handed { Rest::All } else { Rest::Given };
    finish(&intake, &idle, &mut listener, what).await;
}

/// Asks for connections to be closed if new ones wait.
fn want_room(intake: &Intake, listener: &AsyncListener) {
    let waiting = listener.worker_listener().socket().queue().map_or(0, |state| state.queue);
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
        unused.set(intake.budget.claim(ACCEPTS_PER_BATCH_MAX));
        unused.get()
    };
    let outcome = listener.accept_batch_within(claim, |accepted| {
        if welcome(intake, idle, accepted) == Welcomed::Stays {
            unused.set(unused.get() - 1);
        }
    });
    let outcome = outcome.await;
    intake.budget.give_back(unused.get());
    outcome
}

/// What a worker takes when it ends.
#[derive(Clone, Copy)]
enum Rest {
    /// What is queued.
    All,
    /// What other workers have accepted for it.
    Given,
}

/// Takes the rest when the server stops.
async fn finish(intake: &Rc<Intake>, idle: &IdleConnections, listener: &mut AsyncListener, what: Rest) {
    let mut accepts = 0;
    if matches!(what, Rest::Given) && listener.worker_listener().given() == 0 {
        return;
    }
    while accepts < ACCEPTS_AT_STOP_MAX {
        // This wait is short: the open connections are told of the stop, too, and end soon.
        intake.budget.wait_closed().await;
        let claimed = intake.budget.claim(ACCEPTS_PER_BATCH_MAX);
        let mut unused = claimed;
        let take = |accepted| {
            if welcome(intake, idle, accepted) == Welcomed::Stays {
                unused -= 1;
            }
        };
        let outcome = match what {
            Rest::All => listener.try_accept_batch(claimed, take),
            Rest::Given => listener.try_accept_given(claimed, take),
        };
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

/// Whether the acceptor thread of a handoff still has connections to hand over. In a pause, that thread has already ended.
fn is_handed_more(intake: &Intake, listener_index: usize, listener: &AsyncListener) -> bool {
    let worker_listener = listener.worker_listener();
    matches!(worker_listener.distribution(), Distribution::Handoff(_))
        && !intake.stopping.is_kept(listener_index)
        && worker_listener.socket().queue().is_some_and(|state| state.queue > 0)
}

/// What became of a connection right after it was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Welcomed {
    /// The connection was read to its end.
    Finished,
    /// The connection waits for more.
    Stays,
}

fn welcome(intake: &Rc<Intake>, idle: &IdleConnections, accepted: Accepted) -> Welcomed {
    let listener_index = idle.connections.listener_index();
    let peer = accepted.peer.0.map_or(Peer::Unnamed, Peer::Inet);
    let listener = &intake.listeners[listener_index];
    let protocol = listener.spec.protocol;
    if protocol.is_http() {
        let open = intake.open.add(accepted.open);
        http::begin(intake, listener_index, accepted.stream, peer, open);
        return Welcomed::Stays;
    }
    let Some(framer) = Framer::of(protocol) else {
        // Clients wait for acknowledgements, which are small: without this, the kernel holds one back until the one before it
        // is confirmed (RFC 896). Unix sockets have no such delay, and refuse the option.
        let _not_tcp = set_tcp_nodelay(&accepted.stream, true);
        let Some(stream) = listener.stream(accepted.stream) else { return Welcomed::Finished };
        let open = intake.open.add(accepted.open);
        tasks::begin(intake, &idle.sessions, listener_index, stream, peer, open);
        return Welcomed::Stays;
    };
    let heard = intake.view.active_sessions.now();
    let hold = Hold::default();
    let Some(stream) = listener.stream(accepted.stream) else { return Welcomed::Finished };
    let mut connection = Connection { stream, framer, peer, open: None, hold, heard };
    for _ in 0..READS_PER_TURN_MAX {
        if !intake.has_room(listener_index) {
            break;
        }
        match intake.read(listener_index, &mut connection) {
            ReadOutcome::Finished => return Welcomed::Finished,
            ReadOutcome::Blocked => break,
            // Reads again even after a short read: the end of a short connection has usually arrived.
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
    let AcceptState::Starved(shortage) = state else { return };
    if let Some(repeats) = intake.listeners[listener_index].accept_problems.report() {
        warn!(
            listener = intake.listeners[listener_index].spec.source,
            worker = intake.worker,
            error = %shortage,
            repeats,
            "cannot accept; pausing, connections wait in the kernel's queue"
        );
    }
}
