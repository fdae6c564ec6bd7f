//! Gives a session a task, and knows where it goes from there: among the quiet ones, to another worker, or to its end.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use bbq_listen::AsyncConnection;

use super::handover::HandedSession;
use super::quiet::{QuietSession, QuietSessions};
use super::socket::SessionSocket;
use super::task::{Outcome, SessionTask};
use crate::worker::session::{HandedHello, Left, SessionState};
use crate::worker::text::intake::{Intake, OpenConnection};

/// Serves a session until its end or the server's, or until it is quiet again or another worker's.
pub(crate) fn serve(
    intake: &Rc<Intake>,
    quiet: Rc<QuietSessions>,
    session: QuietSession,
) -> impl Future<Output = ()> + use<> {
    let QuietSession { stream, door, peer, open, protocol, standing, moved } = session;
    let task = SessionTask::new(Rc::clone(intake), door, peer, moved);
    let begin = move |connection| SessionState::resumed(Left { connection, protocol, standing });
    run(Rc::clone(intake), task, quiet, open, stream, begin)
}

/// Goes on with a session that another worker has accepted, and that has said hello.
pub(crate) fn serve_handed(
    intake: &Rc<Intake>,
    quiet: Rc<QuietSessions>,
    session: HandedSession,
) -> impl Future<Output = ()> + use<> {
    let HandedSession { handed, door, peer, held, budget, count } = session;
    let open = intake.connection_received(budget, count);
    intake.view.sessions.fetch_add(1, Ordering::Relaxed);
    let moved = intake.view.active_sessions.now();
    let task = SessionTask::new(Rc::clone(intake), door, peer, moved).behind(held);
    let HandedHello { connection: stream, protocol, hello } = handed;
    let begin = move |connection| SessionState::handed(HandedHello { connection, protocol, hello });
    run(Rc::clone(intake), task, quiet, open, stream, begin)
}

#[expect(clippy::manual_async_fn, reason = "what an async function is given is in its future twice")]
fn run(
    intake: Rc<Intake>,
    mut task: SessionTask,
    quiet: Rc<QuietSessions>,
    open: OpenConnection,
    stream: OwnedFd,
    begin: impl FnOnce(SessionSocket) -> SessionState<SessionSocket>,
) -> impl Future<Output = ()> {
    async move {
        intake.view.active_sessions.add();
        let outcome = match AsyncConnection::for_both(stream) {
            Ok(stream) => task.run(begin(SessionSocket::new(stream))).await,
            Err(error) => {
                intake.doors[task.door].report_closed(&error);
                Outcome::Ended
            }
        };
        intake.view.active_sessions.remove();
        let SessionTask { door, peer, moved, .. } = task;
        match outcome {
            Outcome::Quiet(Left { connection, protocol, standing }) => {
                let stream = connection.into_stream();
                quiet.add(&intake, QuietSession { stream, door, peer, open, protocol, standing, moved });
            }
            Outcome::Handed(lane, HandedHello { connection, protocol, hello }, held) => {
                intake.view.sessions.fetch_sub(1, Ordering::Relaxed);
                let handed = HandedHello { connection: connection.into_stream(), protocol, hello };
                let (budget, count) = open.leave();
                let session = HandedSession { handed, door, peer, held, budget, count };
                if intake.colleagues.hand_over(lane, session).is_err() {
                    // Its client connects again.
                    intake.doors[door].ledger.add_refused(1);
                }
            }
            Outcome::Ended => {
                intake.view.sessions.fetch_sub(1, Ordering::Relaxed);
                drop(open);
            }
        }
    }
}
