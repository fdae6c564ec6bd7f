//! Accepts connections from a socket in bounded batches, for any event loop.
//!
//! It never waits, and needs no runtime: `tokio::listener` is for tokio.

use std::io;
use std::sync::OnceLock;
use std::time::Instant;

use crate::dispatch::epoll_set::{EPOLL_EVENTS_MAX, Waiting};
use crate::dispatch::inboxes::room_of;
use crate::io::accepted::{ACCEPTS_PER_BATCH_MAX, AcceptOutcome, AcceptState, Accepted, accept_from};
use crate::sockets::listener::ServedListener;
use crate::{Distribution, Heartbeat, Socket, WorkerListener};

/// Accepts the connections of one worker: those of its own socket, and those of shared ones when they are armed in its epoll set.
///
/// While it lives, its worker counts as present and gets connections.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::net::TcpStream;
///
/// use bbq_listen::{ACCEPTS_PER_BATCH_MAX, Acceptor, Group};
///
/// let group = Group::at("127.0.0.1:0")?.workers(1).open()?;
/// let to = group.local_address().socket_address().ok_or("not tcp")?;
/// let acceptor = Acceptor::new(group.worker_listener(0)?)?;
/// let _client = TcpStream::connect(to)?;
/// let outcome = acceptor.accept_batch(ACCEPTS_PER_BATCH_MAX, &mut |accepted| {
///     let _stream = TcpStream::from(accepted.stream);
/// })?;
/// assert_eq!(outcome.accepted, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Acceptor {
    worker_listener: ServedListener,
    /// When a call first found that the server stops.
    stops_since: OnceLock<Instant>,
}

impl Acceptor {
    /// Call this on the thread that serves `worker_listener`, which must be of a transport with connections.
    pub fn new(worker_listener: WorkerListener) -> io::Result<Self> {
        Self::served(worker_listener, ServedListener::new)
    }

    /// For a task of a tokio runtime.
    #[cfg(feature = "tokio")]
    pub(crate) fn of_task(worker_listener: WorkerListener) -> io::Result<Self> {
        Self::served(worker_listener, ServedListener::of_task)
    }

    fn served(
        worker_listener: WorkerListener,
        serve: fn(WorkerListener) -> ServedListener,
    ) -> io::Result<Self> {
        if !worker_listener.address().transport().is_stream() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} has datagrams, not connections", worker_listener.address()),
            ));
        }
        Ok(Self { worker_listener: serve(worker_listener), stops_since: OnceLock::new() })
    }

    /// The worker it accepts for.
    pub fn worker_listener(&self) -> &WorkerListener {
        &self.worker_listener
    }

    pub(crate) fn heartbeat(&self) -> &Heartbeat {
        self.worker_listener.heartbeat()
    }

    /// When the server began to stop: at the first call.
    pub(crate) fn stops_since(&self) -> Instant {
        *self.stops_since.get_or_init(Instant::now)
    }

    /// Accepts at most `limit` and at most [`ACCEPTS_PER_BATCH_MAX`] connections, and calls `f` for each.
    ///
    /// A connection that broke while it was queued is skipped and counted, and counts towards the limit.
    ///
    /// # Errors
    /// If another try cannot succeed: the socket was shut down. `f` was called for what was accepted before.
    pub fn accept_batch(&self, limit: usize, f: &mut impl FnMut(Accepted)) -> io::Result<AcceptOutcome> {
        let own = self.accept_own(limit, f)?;
        if own.state != AcceptState::Drained {
            return Ok(own);
        }
        let common = self.accept_shared(limit.saturating_sub(own.accepted), f)?;
        Ok(AcceptOutcome { accepted: own.accepted + common.accepted, state: common.state })
    }

    /// As [`accept_batch`](Self::accept_batch), and then from every inbox and every socket of the group: for a stop, when the
    /// worker that a connection waits for may have ended.
    pub(crate) fn accept_anywhere(
        &self,
        limit: usize,
        f: &mut impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        let mut total = self.accept_batch(limit, f)?;
        let dispatch = self.worker_listener.dispatch();
        for epoll_set in dispatch.epoll_sets() {
            let left = limit.min(ACCEPTS_PER_BATCH_MAX).saturating_sub(total.accepted);
            let connections = (0..left).map_while(|_| epoll_set.inbox()?.pop());
            let taken = connections.map(&mut *f).count();
            self.worker_listener.epoll_set().add_taken(taken);
            total.accepted += taken;
        }
        for socket in dispatch.sockets() {
            if total.state != AcceptState::Drained {
                break;
            }
            let outcome = accept_from(&socket, limit.saturating_sub(total.accepted), f);
            self.worker_listener.add_taken(&outcome);
            let outcome = outcome?;
            total = AcceptOutcome { accepted: total.accepted + outcome.accepted, state: outcome.state };
        }
        Ok(total)
    }

    /// Takes what others have accepted for this worker.
    #[cfg(feature = "tokio")]
    pub(crate) fn accept_given(
        &self,
        limit: usize,
        f: &mut impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        self.worker_listener.beat();
        let outcome = self.take_from_inbox(limit, f);
        self.worker_listener.add_taken(&outcome);
        let mut outcome = outcome?;
        if outcome.accepted < limit.min(ACCEPTS_PER_BATCH_MAX) {
            outcome.state = AcceptState::Drained;
        }
        Ok(outcome)
    }

    /// Accepts from its own socket, if it has one.
    pub(crate) fn accept_own(&self, limit: usize, f: &mut impl FnMut(Accepted)) -> io::Result<AcceptOutcome> {
        self.worker_listener.beat();
        let Some(socket) = self.worker_listener.own() else {
            return Ok(AcceptOutcome { accepted: 0, state: AcceptState::Drained });
        };
        let outcome = match self.worker_listener.balanced() {
            Some(_) => self.accept_balanced(socket, limit, f),
            None => accept_from(socket, limit, f),
        };
        self.worker_listener.add_taken(&outcome);
        outcome
    }

    /// Accepts from its own socket, with steering by load: what others can begin with sooner they get.
    fn accept_balanced(
        &self,
        socket: &Socket,
        limit: usize,
        f: &mut impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        let (dispatch, epoll_set) = (self.worker_listener.dispatch(), self.worker_listener.epoll_set());
        let (mut lent, mut given) = (false, 0);
        let mut outcome =
            accept_from(socket, limit, &mut |accepted| match dispatch.give(epoll_set, accepted) {
                Ok(()) => given += 1,
                Err(accepted) => {
                    dispatch.add_at_hand(epoll_set);
                    if !std::mem::replace(&mut lent, true) {
                        // Before the connection is handled, which may take long.
                        self.lend();
                    }
                    f(accepted);
                }
            })?;
        outcome.accepted -= given;
        Ok(outcome)
    }

    /// With steering by load: others take what comes while this worker is busy.
    fn lend(&self) {
        if let Some(own) = self.worker_listener.balanced() {
            self.worker_listener.dispatch().lend(self.worker_listener.epoll_set(), own);
        }
    }

    /// Accepts from the shared sockets that are armed in its epoll set, and from its inbox.
    pub(crate) fn accept_shared(
        &self,
        limit: usize,
        f: &mut impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        self.worker_listener.beat();
        let mut waiting = [Waiting::Inbox; EPOLL_EVENTS_MAX];
        let found = self.worker_listener.epoll_set().waiting(&mut waiting)?;
        let mut total = AcceptOutcome { accepted: 0, state: AcceptState::Drained };
        for waiting in &waiting[..found] {
            let left = limit.saturating_sub(total.accepted);
            let outcome = match waiting {
                Waiting::Inbox => self.take_from_inbox(left, f),
                // Connections are not handed on.
                Waiting::Handed => continue,
                Waiting::Socket(index) => self.accept_armed(*index, left, f),
            };
            self.worker_listener.add_taken(&outcome);
            let outcome = outcome?;
            total.accepted += outcome.accepted;
            total.state = match outcome.state {
                // The next epoll_wait tells whether there is more.
                AcceptState::Drained | AcceptState::More => AcceptState::More,
                starved @ AcceptState::Starved(_) => starved,
            };
        }
        Ok(total)
    }

    /// Accepts from a shared socket that is armed in the epoll set of this worker.
    fn accept_armed(
        &self,
        index: usize,
        limit: usize,
        f: &mut impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        let (dispatch, worker) = (self.worker_listener.dispatch(), self.worker_listener.worker());
        let Some(socket) = dispatch.socket(index) else {
            return Ok(AcceptOutcome { accepted: 0, state: AcceptState::Drained });
        };
        if dispatch.distribution() == Distribution::AcceptMutex {
            return self.accept_holding(&socket, limit, f);
        }
        let (mut passed, mut given) = (false, 0);
        let epoll_set = self.worker_listener.epoll_set();
        let mut outcome = accept_from(&socket, limit, &mut |accepted| {
            if !std::mem::replace(&mut passed, true) {
                // Passed on before the connection is handled, which may take long.
                dispatch.pass(&socket, worker);
                self.lend();
            }
            match dispatch.give(epoll_set, accepted) {
                Ok(()) => given += 1,
                Err(accepted) => {
                    dispatch.add_at_hand(epoll_set);
                    f(accepted);
                }
            }
        });
        if let Ok(outcome) = &mut outcome {
            outcome.accepted -= given;
        }
        if !passed {
            dispatch.keep(&socket, worker);
        }
        if let Ok(outcome) = &outcome
            && socket.worker().is_some_and(|own| own != worker)
        {
            socket.counters().add_rescued(outcome.accepted);
        }
        outcome
    }

    /// Accepts a batch while this worker holds the mutex, passes the mutex on, and then hands the connections over. Meanwhile they are
    /// in its inbox, from where other workers get them if this one stalls over the first.
    fn accept_holding(
        &self,
        socket: &Socket,
        limit: usize,
        f: &mut impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        let (dispatch, worker) = (self.worker_listener.dispatch(), self.worker_listener.worker());
        let epoll_set = self.worker_listener.epoll_set();
        let mut first = None;
        let outcome =
            accept_from(socket, limit.min(room_of(epoll_set)), &mut |accepted| match epoll_set.inbox() {
                Some(inbox) if first.is_some() => inbox.push_back(accepted),
                _ => first = Some(accepted),
            });
        let Some(first) = first else {
            dispatch.keep(socket, worker);
            return outcome;
        };
        dispatch.pass(socket, worker);
        f(first);
        let mut outcome = outcome?;
        let others = (1..outcome.accepted).map_while(|_| epoll_set.inbox()?.pop());
        // Without those that others took meanwhile.
        outcome.accepted = 1 + others.map(f).count();
        Ok(outcome)
    }

    /// Takes connections from the inbox, where others put them.
    pub(crate) fn take_from_inbox(
        &self,
        limit: usize,
        f: &mut impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        let mut outcome = AcceptOutcome { accepted: 0, state: AcceptState::More };
        let Some(inbox) = self.worker_listener.epoll_set().inbox() else { return Ok(outcome) };
        while outcome.accepted < limit.min(ACCEPTS_PER_BATCH_MAX) {
            let Some(connection) = inbox.pop() else { break };
            if outcome.accepted == 0 {
                self.lend();
            }
            outcome.accepted += 1;
            self.worker_listener.dispatch().add_at_hand(self.worker_listener.epoll_set());
            f(connection);
        }
        Ok(outcome)
    }
}
