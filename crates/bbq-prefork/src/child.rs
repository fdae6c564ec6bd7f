//! A child of a pool: a process that accepts and serves connections until it is told to end, or killed.
//!
//! Between two calls of the handler it keeps nothing of a connection in its own memory: the state is in the ledger and in the
//! kernel. So its successor can make the next call.
//!
//! Invariant: a child opens no descriptor but connections.

use std::io;
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use bbq_listen::for_prefork::concerns_one_connection;
use bbq_listen::{ACCEPTS_PER_BATCH_MAX, DRAIN_TIMEOUT, FIRST_BYTE_GRACE_DEFAULT};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_cookie;
use rustix::net::{SocketFlags, accept_with};
use rustix::thread::sched_yield;

use crate::connection::{Connection, Outcome};
use crate::epolls::{self, Source};
use crate::ledger::ChildWords;
use crate::numbers;
use crate::shared::{Listens, Shared};

/// Events taken from epoll at once. Few, so that other children can take the rest.
const EVENTS_MAX: usize = 64;
/// Delay before the next accept when descriptors or memory ran out: closing a few connections takes less.
const STARVED: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// In the grace of a stop a child looks so often whether the others have connections.
const GRACE_STEP: Duration = Duration::from_millis(10);
/// Rounds of events after a stop, before what idles is closed: enough that every readable connection is handled.
const LAST_ROUNDS: usize = 16;

/// The process of one worker of a [`PreforkPool`](crate::PreforkPool).
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::atomic::Ordering;
///
/// use bbq_prefork::{Outcome, PreforkPool};
///
/// let group = bbq_listen::Group::at("127.0.0.1:8080")?.workers(4).open()?;
/// let pool = PreforkPool::start(&group, |child| {
///     child.serve(|_connection| {
///         child.served().fetch_add(1, Ordering::Relaxed);
///         Outcome::Close
///     })
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Child<'a> {
    shared: &'a Shared,
    worker: usize,
}

/// What a connection that was handled waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaits {
    /// It is closed.
    Nothing,
    Input,
    /// Also for input. There is room at once if it has only yielded.
    Room,
}

impl Awaits {
    fn after(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Close => Self::Nothing,
            Outcome::AwaitInput => Self::Input,
            Outcome::AwaitRoom | Outcome::Yield => Self::Room,
        }
    }
}

/// The result of one accept.
enum Accepted {
    Connection(RawFd),
    Nothing,
    /// The connection broke while it was queued.
    Broken,
    Starved,
}

impl<'a> Child<'a> {
    pub(crate) fn new(shared: &'a Shared, worker: usize) -> Self {
        Self { shared, worker }
    }

    /// The index of its worker, from 0.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// A counter for the application, such as the requests that this worker has answered. It outlives the process.
    pub fn served(&self) -> &AtomicU64 {
        self.words().served()
    }

    /// Accepts connections and calls `handle` when one is accepted or ready, until the pool stops or the master ends. Then it goes on
    /// for [a grace](bbq_listen::FIRST_BYTE_GRACE_DEFAULT) while any child has a connection, accepts and handles what is queued, closes
    /// what idles, waits until the responses that were [begun](Connection::begin_response) are written, for 5 s at most, and closes the
    /// rest.
    ///
    /// # Errors
    /// If waiting or accepting fails for a reason that another try will not change.
    pub fn serve(&self, mut handle: impl FnMut(&Connection<'_>) -> Outcome) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut starved = false;
        self.words().has_started().store(1, SeqCst);
        self.words().wake();
        self.shared.set_present(self.worker)?;
        while self.shared.ledger.stopping().load(SeqCst) == 0 {
            // Lets clients send before this process sleeps, so that it wakes up once for several of them.
            sched_yield();
            let was_starved = std::mem::take(&mut starved);
            if !self.wait(&mut events, was_starved.then_some(&STARVED))? {
                break;
            }
            for (source, is_hung_up) in events.drain(..) {
                match source {
                    Source::Listener(index) => starved |= self.accept_batch(index, &mut handle)?,
                    Source::Connection(number) => self.handle_ready(number, is_hung_up, &mut handle),
                    _ => {}
                }
            }
            // While it was starved, the master may have added a listener that needs help.
            if starved || was_starved {
                self.shared.listen(self.worker, if starved { Listens::Not } else { Listens::Ready })?;
            }
        }
        self.drain(&mut handle, &mut events)
    }

    /// Waits for events. Returns whether the master is still running.
    fn wait(&self, events: &mut Vec<(Source, bool)>, timeout: Option<&Timespec>) -> io::Result<bool> {
        let mut raw = [epolls::NO_EVENT; EVENTS_MAX];
        self.words().sleep();
        let waited = epoll::wait(&self.shared.epolls[self.worker], &mut raw[..], timeout);
        self.words().wake();
        let count = match waited {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        events.extend(raw[..count].iter().map(epolls::read));
        Ok(!events.iter().any(|(source, _)| *source == Source::Master))
    }

    /// Accepts from a listener that is ready, and handles each connection. Returns whether descriptors or memory ran out.
    fn accept_batch(
        &self,
        index: usize,
        handle: &mut impl FnMut(&Connection<'_>) -> Outcome,
    ) -> io::Result<bool> {
        let mut lease = self.shared.has_mutex.then(|| self.shared.ledger.lease());
        if let Some(another) = lease.filter(|lease| lease.holder() != self.worker) {
            // It was not scheduled for so long that the mutex went to another, which may not run, either: whoever runs first has it.
            lease = self.shared.ledger.pass_on(another, self.worker);
            if lease.is_none() {
                return Ok(false);
            }
        }
        let most = if lease.is_some() { 1 } else { ACCEPTS_PER_BATCH_MAX };
        for _ in 0..most {
            let taken = self.accept(index)?;
            match (&taken, lease) {
                // Passed on before the connection is handled, which may take long.
                (Accepted::Connection(_), Some(lease)) => self.shared.pass_mutex(lease)?,
                (Accepted::Nothing | Accepted::Broken, Some(_)) => self.shared.arm_mutex()?,
                _ => {}
            }
            match taken {
                Accepted::Connection(number) => self.handle_accepted(number, handle),
                Accepted::Broken => {}
                Accepted::Nothing => break,
                Accepted::Starved => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Between the two changes of `section`, a connection without a ledger entry may be open.
    fn accept(&self, index: usize) -> io::Result<Accepted> {
        let section = self.words().section();
        section.fetch_add(1, SeqCst);
        let taken = self.accept_in_section(index);
        section.fetch_add(1, SeqCst);
        taken
    }

    fn accept_in_section(&self, index: usize) -> io::Result<Accepted> {
        let listener = &self.shared.listeners[index];
        match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(stream) => {
                let Ok(cookie) = socket_cookie(&stream) else { return Ok(Accepted::Broken) };
                let number = stream.into_raw_fd();
                // The limit of descriptors is set so that every number has an entry.
                let Some(entry) = self.shared.ledger.new_entry(number) else {
                    numbers::close(number);
                    return Ok(Accepted::Broken);
                };
                self.words().current().store(number as u64 + 1, SeqCst);
                self.words().open().fetch_add(1, Relaxed);
                entry.begin(cookie, self.worker);
                self.words().taken().fetch_add(1, Relaxed);
                if self.shared.is_own_of_another(index, self.worker) {
                    self.shared.ledger.child(index).rescued().fetch_add(1, Relaxed);
                }
                Ok(Accepted::Connection(number))
            }
            Err(Errno::AGAIN) => Ok(Accepted::Nothing),
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Ok(Accepted::Starved),
            Err(errno) if concerns_one_connection(errno) => Ok(Accepted::Broken),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Most connections are closed after the first call; only the others are added to the epoll.
    fn handle_accepted(&self, number: RawFd, handle: &mut impl FnMut(&Connection<'_>) -> Outcome) {
        let Some(connection) = Connection::accepted(&self.shared.ledger, number) else { return };
        let awaits = Awaits::after(handle(&connection));
        // If it is ready, epoll reports that at once.
        let flags = if awaits == Awaits::Room { epolls::BOTH } else { epolls::READ };
        let waits = awaits != Awaits::Nothing && self.shared.watch(self.worker, number, flags).is_ok();
        self.close_or_keep(&connection, if waits { awaits } else { Awaits::Nothing });
    }

    fn handle_ready(
        &self,
        number: RawFd,
        is_hung_up: bool,
        handle: &mut impl FnMut(&Connection<'_>) -> Outcome,
    ) {
        let Some(connection) = Connection::of(&self.shared.ledger, number, self.worker, is_hung_up) else {
            return;
        };
        self.words().current().store(number as u64 + 1, SeqCst);
        let mut awaits = Awaits::after(handle(&connection));
        if awaits == Awaits::Room && self.shared.watch_again(self.worker, number, epolls::BOTH).is_err() {
            awaits = Awaits::Nothing;
        }
        self.close_or_keep(&connection, awaits);
    }

    /// Closes the connection unless it waits for something. The ledger entry of a closed connection need not be cleared.
    fn close_or_keep(&self, connection: &Connection<'_>, awaits: Awaits) {
        if awaits == Awaits::Nothing {
            self.words().open().fetch_sub(1, Relaxed);
            numbers::close(connection.number);
        }
        self.words().current().store(0, SeqCst);
        if awaits != Awaits::Nothing {
            // From here on it may be another's.
            connection.entry.let_go(self.worker, awaits == Awaits::Room);
        }
    }

    /// Goes on for a grace, so that clients which have just connected can send their first requests. Then accepts queued connections, which
    /// would be reset when the sockets are closed, handles those that are readable, and closes all: the others have the same descriptors,
    /// so they stay open when this process ends.
    fn drain(
        &self,
        handle: &mut impl FnMut(&Connection<'_>) -> Outcome,
        events: &mut Vec<(Source, bool)>,
    ) -> io::Result<()> {
        let began = Instant::now();
        let deadline = began + DRAIN_TIMEOUT;
        self.shared.ignore_stop(self.worker);
        self.accept_queued(deadline, handle)?;
        let before = self.words().taken().load(Relaxed);
        self.wait_for_first_requests(began + FIRST_BYTE_GRACE_DEFAULT, handle, events)?;
        self.accept_queued(deadline, handle)?;
        self.shared.listen(self.worker, Listens::Not)?;
        if self.words().taken().load(Relaxed) != before {
            self.wait_for_first_requests(Instant::now() + FIRST_BYTE_GRACE_DEFAULT, handle, events)?;
        }
        for _ in 0..LAST_ROUNDS {
            self.handle_for(NOW, handle, events)?;
        }
        while self.close_idle() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.handle_for(
                Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?,
                handle,
                events,
            )?;
        }
        self.shared.close_connections(self.worker);
        Ok(())
    }

    fn accept_queued(
        &self,
        deadline: Instant,
        handle: &mut impl FnMut(&Connection<'_>) -> Outcome,
    ) -> io::Result<()> {
        for index in self.shared.listeners_of(self.worker) {
            while Instant::now() < deadline {
                match self.accept(index)? {
                    Accepted::Connection(number) => self.handle_accepted(number, handle),
                    Accepted::Broken => {}
                    Accepted::Nothing | Accepted::Starved => break,
                }
            }
        }
        Ok(())
    }

    /// Handles what comes for as long as any child has a connection, at most `until` then. The children end together: connections that
    /// come meanwhile to the socket of one that had ended before would wait for nobody.
    fn wait_for_first_requests(
        &self,
        until: Instant,
        handle: &mut impl FnMut(&Connection<'_>) -> Outcome,
        events: &mut Vec<(Source, bool)>,
    ) -> io::Result<()> {
        while self.shared.has_open_connections() {
            let left = until.saturating_duration_since(Instant::now()).min(GRACE_STEP);
            if left.is_zero() {
                break;
            }
            self.handle_for(
                Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?,
                handle,
                events,
            )?;
        }
        Ok(())
    }

    /// Waits for at most `timeout`, and handles what is ready.
    fn handle_for(
        &self,
        timeout: Timespec,
        handle: &mut impl FnMut(&Connection<'_>) -> Outcome,
        events: &mut Vec<(Source, bool)>,
    ) -> io::Result<()> {
        self.wait(events, Some(&timeout))?;
        let mut starved = false;
        for (source, is_hung_up) in events.drain(..) {
            match source {
                Source::Connection(number) => self.handle_ready(number, is_hung_up, handle),
                Source::Listener(index) => starved |= self.accept_batch(index, handle)?,
                _ => {}
            }
        }
        if starved { self.shared.listen(self.worker, Listens::Not) } else { Ok(()) }
    }

    /// Closes the connections to which no response is being written. Returns whether there are others.
    fn close_idle(&self) -> bool {
        let mut others = false;
        for number in self.shared.connections(self.worker) {
            if self.shared.ledger.entry(number).is_some_and(|entry| entry.pending().is_some()) {
                others = true;
            } else {
                numbers::close(number);
            }
        }
        others
    }

    fn words(&self) -> ChildWords<'a> {
        self.shared.ledger.child(self.worker)
    }
}
