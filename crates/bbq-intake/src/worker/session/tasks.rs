//! Gives sessions their tasks. When a task ends, the session becomes quiet, moves to another worker, or is over.

use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bbq_wire::session::{Refusal, RefusalCode, ServerSession};
use rustix::net::sockopt::set_tcp_nodelay;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use super::quiet::{QuietSession, QuietSessions};
use super::socket::SessionSocket;
use super::state::{HandedHello, SessionState, SuspendedSession};
use super::task::{Outcome, SessionTask};
use crate::worker::arrival::{Arrival, ArrivalOutcome};
use crate::worker::connections::open::OpenConnection;
use crate::worker::handover::HandedSession;
use crate::worker::intake::Intake;
use crate::worker::stream::Stream;

/// A timer that a worker with rounds always has, and that no round lets end: longer than from one round to the next, shorter than the
/// default timeouts. tokio wakes its event loop, by a write to an eventfd, when a timer is set that is due before all others; each request
/// of HTTP sets one, often when there is no other.
const NEAREST_TIMER: Duration = Duration::from_secs(3);

/// Keeps a connection among the quiet sessions until its client says hello.
pub(crate) fn begin(arrival: Arrival<'_>) -> ArrivalOutcome {
    let peer = arrival.peer;
    let Arrival { intake, idle, listener_index, accepted, address, .. } = arrival;
    // Clients wait for acknowledgements, which are small: without this, the kernel holds one back until the previous one is
    // acknowledged by TCP (RFC 896). Unix sockets have no such delay, and refuse the option.
    let _not_tcp = set_tcp_nodelay(&accepted.stream, true);
    let Some(stream) = intake.listeners[listener_index].stream(accepted.stream) else {
        return ArrivalOutcome::Closed;
    };
    let open = intake.connections.open.add(accepted.open, address);
    intake.view.sessions.fetch_add(1, Ordering::Relaxed);
    let protocol = ServerSession::new(intake.listeners[listener_index].batch_limits());
    let last_active = intake.view.active_sessions.now();
    let session =
        QuietSession { stream, listener_index, peer, open, protocol, established: None, last_active };
    keep(intake, &idle.sessions, session);
    ArrivalOutcome::Open
}

/// What a client is told whose address has too many connections.
pub(crate) fn too_many(why: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    Refusal::new(RefusalCode::Busy, why).encode(&mut frame);
    frame
}

/// Gives a task to each quiet session whose client has sent something, and to all when the server stops. Begins the rounds.
pub(crate) async fn serve_quiet(intake: Rc<Intake>, quiet: Rc<QuietSessions>) {
    let mut nearest = pin!(sleep(NEAREST_TIMER));
    loop {
        let turn = tokio::select! {
            biased;
            () = intake.stopping.wait() => break,
            () = intake.view.active_sessions.round() => {
                intake.rounds.begin(&intake.view.active_sessions, !intake.disk.waiters.is_empty());
                quiet.close_late(&intake);
                nearest.as_mut().reset(Instant::now() + NEAREST_TIMER);
                continue;
            }
            // There are no rounds any more, as nothing is connected.
            () = &mut nearest, if !nearest.is_elapsed() => continue,
            turn = quiet.take_ready(|session| wake(&intake, &quiet, session)) => turn,
        };
        // An error means that the runtime ends.
        if turn.is_err() {
            return;
        }
    }
    for session in quiet.take_all() {
        wake(&intake, &quiet, session);
    }
}

/// Keeps a session without a task, or gives it one when the server stops.
fn keep(intake: &Rc<Intake>, quiet: &Rc<QuietSessions>, session: QuietSession) {
    if let Some(session) = quiet.add(intake, session) {
        wake(intake, quiet, session);
    }
}

/// Gives a session a task.
fn wake(intake: &Rc<Intake>, quiet: &Rc<QuietSessions>, session: QuietSession) {
    spawn_local(serve(intake, Rc::clone(quiet), session));
}

/// Serves a session until it ends, is quiet again, or moves to another worker.
fn serve(
    intake: &Rc<Intake>,
    quiet: Rc<QuietSessions>,
    session: QuietSession,
) -> impl Future<Output = ()> + use<> {
    let QuietSession { stream, listener_index, peer, open, protocol, established, last_active } = session;
    let task = SessionTask::new(Rc::clone(intake), listener_index, peer, last_active);
    let begin =
        move |connection| SessionState::resume(SuspendedSession { connection, protocol, established });
    run(Rc::clone(intake), task, quiet, open, stream, begin)
}

/// Continues a session. Another worker has accepted the connection and read the hello.
pub(crate) fn serve_handed(
    intake: &Rc<Intake>,
    quiet: Rc<QuietSessions>,
    session: HandedSession,
) -> impl Future<Output = ()> + use<> {
    let HandedSession { handed, listener_index, peer, held, budget, count } = session;
    let open = intake.connections.open.receive(budget, count);
    intake.view.sessions.fetch_add(1, Ordering::Relaxed);
    let last_active = intake.view.active_sessions.now();
    let task = SessionTask::new(Rc::clone(intake), listener_index, peer, last_active).with_held(held);
    let HandedHello { connection: stream, protocol, hello, admission } = handed;
    let begin =
        move |connection| SessionState::handed(HandedHello { connection, protocol, hello, admission });
    run(Rc::clone(intake), task, quiet, open, stream, begin)
}

#[expect(clippy::manual_async_fn, reason = "the future of an async fn holds its arguments twice")]
fn run(
    intake: Rc<Intake>,
    mut task: SessionTask,
    quiet: Rc<QuietSessions>,
    open: OpenConnection,
    stream: Stream,
    begin: impl FnOnce(SessionSocket) -> SessionState<SessionSocket>,
) -> impl Future<Output = ()> {
    async move {
        intake.view.active_sessions.add();
        let outcome = match SessionSocket::new(stream) {
            Ok(socket) => task.run(begin(socket)).await,
            Err(error) => {
                intake.listeners[task.listener_index].report_closed(&error);
                Outcome::Ended
            }
        };
        intake.view.active_sessions.remove();
        let SessionTask { listener_index, peer, last_active, .. } = task;
        match outcome {
            Outcome::Quiet(SuspendedSession { connection, protocol, established }) => {
                let stream = connection.into_stream();
                keep(
                    &intake,
                    &quiet,
                    QuietSession { stream, listener_index, peer, open, protocol, established, last_active },
                );
            }
            Outcome::Handed(lane, HandedHello { connection, protocol, hello, admission }, held) => {
                intake.view.sessions.fetch_sub(1, Ordering::Relaxed);
                let connection = connection.into_stream();
                let handed = HandedHello { connection, protocol, hello, admission };
                let (budget, count) = open.into_parts();
                let session = HandedSession { handed, listener_index, peer, held, budget, count };
                if intake.disk.mesh.hand_over(lane, session).is_err() {
                    // The client connects again.
                    intake.listeners[listener_index].ledger.add_refused(1);
                }
            }
            Outcome::Ended => {
                intake.view.sessions.fetch_sub(1, Ordering::Relaxed);
                drop(open);
            }
        }
    }
}
