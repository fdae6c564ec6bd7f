//! A child of a pool: a process that accepts and serves connections until it is told to end, or killed.
//!
//! It remembers nothing of a connection between two turns: what there is to know stands in the ledger, and the kernel knows the
//! rest. So its successor can go on with the next turn.
//!
//! Invariant: a child opens no descriptor but connections.

use std::io;
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use bbq_listen::ACCEPTS_PER_BATCH_MAX;
use bbq_listen::for_prefork::{close_number, concerns_one_connection};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_cookie;
use rustix::net::{SocketFlags, accept_with};
use rustix::thread::sched_yield;

use crate::connection::{Connection, Turn};
use crate::epolls::{self, Source};
use crate::ledger::ChildWords;
use crate::shared::{Listens, Shared};

/// Events taken at once: what others could take meanwhile waits behind them.
const EVENTS_MAX: usize = 64;
/// When descriptors or memory ran out, the next try is made after so long: closing a few connections takes less.
const STARVED: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// At the end what is queued is accepted for so long at most.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// At the end every connection that is readable has had its turn after so many rounds.
const LAST_ROUNDS: usize = 16;

/// The process of one worker of a [`PreforkPool`](crate::PreforkPool).
#[derive(Debug)]
pub struct Child<'a> {
    shared: &'a Shared,
    worker: usize,
}

/// What came of one try to accept.
enum Taken {
    One(RawFd),
    Nothing,
    /// One that broke while it waited.
    Broken,
    Starved,
}

impl<'a> Child<'a> {
    pub(crate) fn new(shared: &'a Shared, worker: usize) -> Self {
        Self { shared, worker }
    }

    /// The number of its worker, from 0.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// A number of the application's own, such as the requests that this worker has answered; it outlives the process.
    pub fn served(&self) -> &AtomicU64 {
        self.words().served()
    }

    /// Accepts connections and gives each its turns, until the pool stops or the master is gone; then takes what is queued.
    ///
    /// # Errors
    /// If the system refuses to wait or to accept for a reason that another try will not mend.
    pub fn serve(&self, mut turn: impl FnMut(&Connection<'_>) -> Turn) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut starved = false;
        self.words().came_up().store(1, SeqCst);
        while self.shared.ledger.stopping().load(SeqCst) == 0 {
            // Lets clients send before this process sleeps: what comes meanwhile is one batch.
            sched_yield();
            let was_starved = std::mem::take(&mut starved);
            if !self.wait(&mut events, was_starved.then_some(&STARVED))? {
                break;
            }
            for (source, is_hung_up) in events.drain(..) {
                match source {
                    Source::Listener(index) => starved |= self.accept_turn(index, &mut turn)?,
                    Source::Connection(number) => self.connection_turn(number, is_hung_up, &mut turn),
                    _ => {}
                }
            }
            if starved != was_starved {
                self.shared.listen(self.worker, if starved { Listens::Not } else { Listens::Ready })?;
            }
        }
        self.drain(&mut turn, &mut events)
    }

    /// Takes events. Returns whether the master is still there.
    fn wait(&self, events: &mut Vec<(Source, bool)>, timeout: Option<&Timespec>) -> io::Result<bool> {
        let mut raw = [epolls::NO_EVENT; EVENTS_MAX];
        let count = match epoll::wait(&self.shared.epolls[self.worker], &mut raw[..], timeout) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        events.extend(raw[..count].iter().map(epolls::read));
        Ok(!events.iter().any(|(source, _)| *source == Source::Master))
    }

    /// Accepts from a listener that is ready, and gives each connection its first turn. Returns whether descriptors or memory
    /// ran out.
    fn accept_turn(&self, index: usize, turn: &mut impl FnMut(&Connection<'_>) -> Turn) -> io::Result<bool> {
        let one_each = self.shared.has_mutex;
        let most = if one_each { 1 } else { ACCEPTS_PER_BATCH_MAX };
        for _ in 0..most {
            let taken = self.accept(index)?;
            match taken {
                // Before it is handled, which may take long.
                Taken::One(_) if one_each => self.shared.pass_mutex(self.worker)?,
                Taken::Nothing | Taken::Broken if one_each => self.shared.arm_mutex()?,
                _ => {}
            }
            match taken {
                Taken::One(number) => self.first_turn(number, turn),
                Taken::Broken => {}
                Taken::Nothing => break,
                Taken::Starved => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Between the two changes of `section` a connection may be open that stands in no ledger.
    fn accept(&self, index: usize) -> io::Result<Taken> {
        let section = self.words().section();
        section.fetch_add(1, SeqCst);
        let taken = self.accept_in_section(index);
        section.fetch_add(1, SeqCst);
        taken
    }

    fn accept_in_section(&self, index: usize) -> io::Result<Taken> {
        let listener = &self.shared.listeners[index];
        match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(stream) => {
                let Ok(cookie) = socket_cookie(&stream) else { return Ok(Taken::Broken) };
                let number = stream.into_raw_fd();
                // The limit of descriptors was set so that there is one.
                let Some(entry) = self.shared.ledger.entry(number) else {
                    close_number(number);
                    return Ok(Taken::Broken);
                };
                self.words().in_hand().store(number as u64 + 1, SeqCst);
                self.words().open().fetch_add(1, Relaxed);
                entry.begin(cookie, self.worker);
                self.words().taken().fetch_add(1, Relaxed);
                Ok(Taken::One(number))
            }
            Err(Errno::AGAIN) => Ok(Taken::Nothing),
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Ok(Taken::Starved),
            Err(errno) if concerns_one_connection(errno) => Ok(Taken::Broken),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Most connections are done with their first turn: only what is not is waited for.
    fn first_turn(&self, number: RawFd, turn: &mut impl FnMut(&Connection<'_>) -> Turn) {
        let Some(connection) = Connection::of(&self.shared.ledger, number, self.worker, false) else {
            return;
        };
        let next = turn(&connection);
        let waits = match next {
            Turn::Close => false,
            // What is ready is an event at once.
            Turn::Read | Turn::Again => self.shared.watch(self.worker, number, epolls::READ).is_ok(),
            Turn::Write => self.shared.watch(self.worker, number, epolls::BOTH).is_ok(),
        };
        self.put_down(&connection, waits);
    }

    fn connection_turn(
        &self,
        number: RawFd,
        is_hung_up: bool,
        turn: &mut impl FnMut(&Connection<'_>) -> Turn,
    ) {
        let Some(connection) = Connection::of(&self.shared.ledger, number, self.worker, is_hung_up) else {
            return;
        };
        self.words().in_hand().store(number as u64 + 1, SeqCst);
        let waits = match turn(&connection) {
            Turn::Read => true,
            Turn::Close => false,
            Turn::Write | Turn::Again => self.shared.watch_again(self.worker, number, epolls::BOTH).is_ok(),
        };
        self.put_down(&connection, waits);
    }

    /// Closes it unless it waits. Nothing that is closed needs to be taken out of the ledger.
    fn put_down(&self, connection: &Connection<'_>, waits: bool) {
        if !waits {
            self.words().open().fetch_sub(1, Relaxed);
            close_number(connection.number);
        }
        self.words().in_hand().store(0, SeqCst);
    }

    /// Takes what is queued, which would be reset when the sockets are closed, and answers what is readable.
    fn drain(
        &self,
        turn: &mut impl FnMut(&Connection<'_>) -> Turn,
        events: &mut Vec<(Source, bool)>,
    ) -> io::Result<()> {
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        for index in self.shared.listeners_of(self.worker) {
            while Instant::now() < deadline {
                match self.accept(index)? {
                    Taken::One(number) => self.first_turn(number, turn),
                    Taken::Broken => {}
                    Taken::Nothing | Taken::Starved => break,
                }
            }
        }
        for _ in 0..LAST_ROUNDS {
            self.wait(events, Some(&NOW))?;
            for (source, is_hung_up) in events.drain(..) {
                if let Source::Connection(number) = source {
                    self.connection_turn(number, is_hung_up, turn);
                }
            }
        }
        Ok(())
    }

    fn words(&self) -> ChildWords<'a> {
        self.shared.ledger.child(self.worker)
    }
}
