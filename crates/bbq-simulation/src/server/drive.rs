//! Drives a session of bbq-server as its `session_task` does. It passes bytes in, takes replies, waits for events, makes the
//! session quiet and active again, and hands the session over to another worker.

use bbq_intake::simulated::{Input, SessionState, Step, SuspendedSession};
use bbq_wire::session::{Refusal, RefusalCode};

use super::Server;
use super::planted::forget_epoch;
use super::session::{Place, Session};
use super::socket::Socket;
use crate::bug::Bug;
use crate::network::Connection;
use crate::note;
use crate::trace::Trace;

/// Once in this many steps, a session is ended, as for a time-out or for lack of memory.
const ONE_IN_EVICTIONS: u64 = 500;
/// Once in this many steps, an idle session becomes quiet.
const ONE_IN_QUIET: u64 = 3;

/// The result of driving a session.
enum NextStep {
    Continue,
    Wait,
}

impl Server {
    /// Handles what has arrived on a connection, as far as possible.
    pub(super) fn drive(&mut self, number: u64, connection: &mut Connection, trace: &mut Trace) {
        let worker = (number % self.workers.len() as u64) as usize;
        let socket_bytes = self.socket_bytes;
        let accept = || Session::new(worker, socket_bytes);
        let mut session = self.sessions.remove(&number).unwrap_or_else(accept);
        session.socket.0.carry(connection);
        while let NextStep::Continue = self.turn(number, &mut session, connection, trace) {}
        let carried = session.socket.0.carry(connection);
        if carried > 0 {
            note!(trace, "server sends {carried} bytes on {number}");
        }
        match session.place {
            Place::Over => connection.done = true,
            _ => drop(self.sessions.insert(number, session)),
        }
    }

    fn turn(
        &mut self,
        number: u64,
        session: &mut Session,
        connection: &mut Connection,
        trace: &mut Trace,
    ) -> NextStep {
        match std::mem::replace(&mut session.place, Place::Over) {
            Place::Task(state) => self.step(number, session, state, connection, trace),
            Place::Quiet(suspended) => self.wake(session, suspended, connection, trace),
            Place::Handed(_) if self.is_stopping => {
                note!(trace, "server closes {number}, which no worker has accepted");
                NextStep::Wait
            }
            Place::Handed(handed) => {
                session.place = Place::Task(SessionState::handed(handed));
                NextStep::Continue
            }
            Place::Closing(state, refusal) => {
                state.replies().flush();
                session.socket.0.carry(connection);
                state.replies().flush();
                if !state.replies().is_sent() {
                    session.place = Place::Closing(state, refusal);
                    return NextStep::Wait;
                }
                session.socket.0.carry(connection);
                if let Some(refusal) = refusal {
                    note!(trace, "server refuses {number}: {refusal}");
                    refuse(connection, &refusal);
                }
                NextStep::Wait
            }
            Place::Over => NextStep::Wait,
        }
    }

    /// Makes a quiet session active if something has arrived.
    fn wake(
        &mut self,
        session: &mut Session,
        suspended: SuspendedSession<Socket>,
        connection: &mut Connection,
        trace: &mut Trace,
    ) -> NextStep {
        if !connection.up.arrived.is_empty() || connection.up.is_at_end() || self.is_stopping {
            session.place = Place::Task(SessionState::resume(suspended));
            return NextStep::Continue;
        }
        if self.random.one_in(ONE_IN_EVICTIONS) {
            note!(trace, "server closes a session that is idle");
            refuse(connection, &Refusal::new(RefusalCode::Busy, "idle for longest"));
        } else {
            session.place = Place::Quiet(suspended);
        }
        NextStep::Wait
    }

    fn step(
        &mut self,
        number: u64,
        session: &mut Session,
        mut state: SessionState<Socket>,
        connection: &mut Connection,
        trace: &mut Trace,
    ) -> NextStep {
        let arrived = &mut connection.up.arrived;
        if self.options.bug == Some(Bug::OldHelloTakesOver) && !session.is_rewritten {
            session.is_rewritten = forget_epoch(arrived);
        }
        if matches!(self.options.bug, Some(Bug::GapIsFinal | Bug::GapIsFinalInOneWay)) {
            self.newest.forget_late(&mut session.relays, arrived);
        }
        let was_open = state.is_open();
        let context = self.workers[session.worker].context(&self.shared, self.now_ns());
        let mut input = Input::new(arrived, 0);
        let step = state.step(&context, &mut input);
        let Input { handled, order_lost, .. } = input;
        self.lost_order.extend(order_lost.into_iter().map(|(stream, _)| stream));
        connection.up.consume(handled);
        if state.is_open() && !was_open {
            note!(trace, "server welcomes {number} at worker {}", session.worker);
        }
        if handled > 0 {
            note!(trace, "server takes {handled} bytes of {number}, then {step:?}");
        }
        match step {
            Step::Read(needed) => return self.read(session, state, needed, connection),
            Step::AwaitStream if self.is_stopping && !session.is_told => {
                state.stop();
                session.is_told = true;
                session.place = Place::Task(state);
                return NextStep::Continue;
            }
            Step::AwaitRoom(_) | Step::AwaitStream | Step::AwaitReplicas | Step::AwaitAcks => {
                session.place = Place::Task(state)
            }
            Step::HandOver(lane) => {
                note!(trace, "session {number} goes to worker {lane}");
                session.worker = lane as usize;
                session.place = state.hand_over().map_or(Place::Over, Place::Handed);
                if self.is_stopping {
                    return NextStep::Continue;
                }
            }
            Step::Close(refusal) => {
                session.place = Place::Closing(state, refusal);
                return NextStep::Continue;
            }
        }
        NextStep::Wait
    }

    /// Whether everything that has arrived is handled, except an incomplete item.
    fn read(
        &mut self,
        session: &mut Session,
        mut state: SessionState<Socket>,
        needed: usize,
        connection: &mut Connection,
    ) -> NextStep {
        let waiting = connection.up.arrived.len();
        if self.is_stopping {
            state.stop();
        } else if connection.up.is_at_end() {
            state.input_ended(waiting, needed);
        } else if waiting > 0 && self.random.one_in(ONE_IN_EVICTIONS) {
            state.refuse(Refusal::new(RefusalCode::Busy, "nothing came in the middle of something"));
        } else if waiting == 0 && state.can_suspend() && self.random.one_in(ONE_IN_QUIET) {
            session.place = state.suspend().map_or(Place::Over, Place::Quiet);
            return NextStep::Wait;
        } else {
            session.place = Place::Task(state);
            return NextStep::Wait;
        }
        session.place = Place::Task(state);
        NextStep::Continue
    }
}

/// Tells a client why its session ends.
fn refuse(connection: &mut Connection, refusal: &Refusal) {
    let mut bytes = Vec::new();
    refusal.encode(&mut bytes);
    connection.down.write(&bytes);
}
