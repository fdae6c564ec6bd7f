//! Accepts connections within the budget, and gives each to the source that serves its protocol.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use bbq_listen::{ACCEPTS_PER_BATCH_MAX, AcceptOutcome, AcceptState, Accepted, AsyncListener, Distribution};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use crate::worker::arrival::{Arrival, ArrivalOutcome, IdleConnections, peer_of};
use crate::worker::connections::idle::EVICTIONS_MAX;
use crate::worker::intake::Intake;
use crate::worker::sources::{self, Begin};

/// Maximum connections accepted after the stop has begun: queued ones are served, an endless flow is not.
const ACCEPTS_AT_STOP_MAX: usize = 8192;
/// During a stop, the pause between two checks for connections from a handoff's acceptor thread. That thread pauses equally long.
const HANDED_PAUSE: Duration = Duration::from_millis(1);

/// The receive buffer of a connection in the kernel, for a server with little memory: what waits there counts for it, too (memory.max of
/// cgroups(7)). Enough for a read that is worth its system call; the kernel doubles it for its own use.
const RECEIVE_BUFFER_SMALL_BYTES: usize = 32 * 1024;

/// During the grace of a stop, how often a worker looks whether any client is still connected.
const GRACE_INTERVAL: Duration = Duration::from_millis(5);

/// At the limit of connections, how often a worker checks whether new ones wait.
const ROOM_INTERVAL: Duration = Duration::from_millis(500);

/// Accepts until the server stops. Then accepts what is queued, unless the listener is kept.
pub(crate) async fn serve(intake: Rc<Intake>, idle: IdleConnections, mut listener: AsyncListener) {
    let listener_index = idle.connections.listener_index();
    let begin = sources::of(intake.listeners[listener_index].spec.protocol);
    let is_handed = matches!(listener.worker_listener().distribution(), Distribution::Handoff(_));
    loop {
        if intake.connections.budget.is_used_up() {
            report_limit(&intake, listener_index);
            want_room(&intake, &listener);
            tokio::select! {
                () = intake.connections.budget.wait_closed() => {}
                () = tokio::time::sleep(ROOM_INTERVAL) => continue,
                () = intake.stopping.wait() => break,
            }
        }
        tokio::select! {
            biased;
            () = intake.stopping.wait() => break,
            turn = turn(&intake, &idle, begin, &mut listener) => match turn {
                Ok(outcome) => report_starved(&intake, listener_index, outcome.state),
                Err(error) => {
                    return intake.listeners[listener_index].fail(intake.worker, &error);
                }
            },
        }
    }
    if intake.listeners[listener_index].spec.protocol.is_http() && !intake.stopping.is_kept(listener_index) {
        serve_grace(&intake, &idle, begin, &mut listener).await;
    }
    // No other worker can take connections that were handed to this worker. The queue of a kept listener is left alone.
    let remaining = if !intake.stopping.is_kept(listener_index) || is_handed {
        RemainingAccepts::Queued
    } else {
        RemainingAccepts::HandedOver
    };
    finish(&intake, &idle, begin, &mut listener, remaining).await;
}

/// Accepts during the grace of a stop, while others are connected, so that clients that connect now get a response. At the limit of
/// connections it ends: what is queued then waits for others to close (`finish`).
async fn serve_grace(
    intake: &Rc<Intake>,
    idle: &IdleConnections,
    begin: Begin,
    listener: &mut AsyncListener,
) {
    finish(intake, idle, begin, listener, RemainingAccepts::Queued).await;
    let Some(end) = intake.stopping.grace_end() else { return };
    let mut accepts = 0;
    while accepts < ACCEPTS_AT_STOP_MAX
        && Instant::now() < end
        && !intake.connections.open_http.is_empty()
        && !intake.connections.budget.is_used_up()
    {
        tokio::select! {
            biased;
            () = sleep_until(end.min(Instant::now() + GRACE_INTERVAL)) => {}
            turn = turn(intake, idle, begin, listener) => match turn {
                Ok(outcome) => {
                    accepts += outcome.accepted;
                    report_starved(intake, idle.connections.listener_index(), outcome.state);
                }
                // The listener closes anyway; `finish` meets the same error.
                Err(_) => return,
            },
        }
    }
}

/// Asks for connections to be closed if new ones wait.
fn want_room(intake: &Intake, listener: &AsyncListener) {
    let waiting = listener.worker_listener().socket().queue().map_or(0, |state| state.queue);
    if waiting > 0 {
        intake.connections.budget.want_room(waiting.min(EVICTIONS_MAX as u64));
    }
}

/// Accepts a batch within the budget.
async fn turn(
    intake: &Rc<Intake>,
    idle: &IdleConnections,
    begin: Begin,
    listener: &mut AsyncListener,
) -> io::Result<AcceptOutcome> {
    let unused = Cell::new(0);
    let claim = || {
        unused.set(intake.connections.budget.claim(ACCEPTS_PER_BATCH_MAX));
        unused.get()
    };
    let outcome = listener.accept_batch_within(claim, |accepted| {
        if dispatch(intake, idle, begin, accepted) == ArrivalOutcome::Open {
            unused.set(unused.get() - 1);
        }
    });
    let outcome = outcome.await;
    intake.connections.budget.give_back(unused.get());
    outcome
}

/// Which connections a worker still accepts when it ends.
#[derive(Clone, Copy)]
enum RemainingAccepts {
    /// All that are queued.
    Queued,
    /// Those that other workers have accepted for this worker.
    HandedOver,
}

/// Accepts the remaining connections when the server stops.
async fn finish(
    intake: &Rc<Intake>,
    idle: &IdleConnections,
    begin: Begin,
    listener: &mut AsyncListener,
    remaining: RemainingAccepts,
) {
    let mut accepts = 0;
    if matches!(remaining, RemainingAccepts::HandedOver) && listener.worker_listener().given() == 0 {
        return;
    }
    while accepts < ACCEPTS_AT_STOP_MAX {
        // This wait is short: the open connections are told of the stop, too, and end soon; those of HTTP after their grace.
        intake.connections.budget.wait_closed().await;
        let claimed = intake.connections.budget.claim(ACCEPTS_PER_BATCH_MAX);
        let mut unused = claimed;
        let take = |accepted| {
            if dispatch(intake, idle, begin, accepted) == ArrivalOutcome::Open {
                unused -= 1;
            }
        };
        let outcome = match remaining {
            RemainingAccepts::Queued => listener.try_accept_batch(claimed, take),
            RemainingAccepts::HandedOver => listener.try_accept_given(claimed, take),
        };
        intake.connections.budget.give_back(unused);
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

/// Gives a connection to the source that serves it, unless its address has too many.
fn dispatch(intake: &Rc<Intake>, idle: &IdleConnections, begin: Begin, accepted: Accepted) -> ArrivalOutcome {
    let listener_index = idle.connections.listener_index();
    let listener = &intake.listeners[listener_index];
    let peer = peer_of(&accepted, listener.spec.address.transport());
    let Ok(address) = listener.claim_address(peer) else {
        turn_away(intake, listener_index, &accepted.stream);
        return ArrivalOutcome::Closed;
    };
    if intake.buffers.limits.has_little_memory && !listener.spec.address.transport().is_unix() {
        // A refusal costs memory, and nothing else.
        let _set = set_socket_recv_buffer_size(&accepted.stream, RECEIVE_BUFFER_SMALL_BYTES);
    }
    begin(Arrival { intake, idle, listener_index, accepted, peer, address })
}

/// Tells a client, as far as it can be told at once, that its address has too many connections. During a TLS handshake it cannot.
fn turn_away(intake: &Intake, listener_index: usize, stream: &OwnedFd) {
    let listener = &intake.listeners[listener_index];
    if listener.tls.is_some() {
        return;
    }
    let why =
        "this address has reached its limit of connections (connections_per_address_max); try again later";
    if let Some(text) = sources::too_many(listener.spec.protocol, why) {
        // Whoever is gone is not told.
        let _sent = send(stream, &text, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        let _ended = shutdown(stream, Shutdown::Write);
    }
}

fn report_limit(intake: &Intake, listener_index: usize) {
    if let Some(repeats) = intake.listeners[listener_index].accept_problems.report() {
        warn!(
            listener = intake.listeners[listener_index].spec.source,
            worker = intake.worker,
            connections_max = intake.connections.budget.max(),
            repeats,
            "as many connections as file descriptors and memory allow: new ones wait in the kernel's queue until another one is \
             closed or idle for long enough (evict_idle_seconds); raise the limit (ulimit -n, systemd: LimitNOFILE=, MemoryMax=)"
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
