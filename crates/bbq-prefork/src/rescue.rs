//! Gives the connections of a child that died to its successor.
//!
//! Most of them have an entry in the ledger that names the dead child. One may have none: the process was killed between the
//! accept and the entry. Such a connection looks like those that living children accept at this moment. So it is set aside until
//! each of them has left the section that it was in; a connection without an entry then belonged to the dead child.
//!
//! Invariant: only the master does this, for one death after the other.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use bbq_listen::for_prefork::tcp_progress;
use bbq_listen::{Address, bound_address};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{socket_acceptconn, socket_cookie};

use crate::epolls;
use crate::numbers;
use crate::shared::Shared;

/// After this many deaths in a row while a connection was handled, the connection is taken for the cause and closed.
const DEATHS_MAX: u64 = 3;

/// The result of [`rescue`].
#[derive(Debug, Default)]
pub(crate) struct Rescued {
    /// Connections that go over to the successor.
    pub(crate) inherited: usize,
    /// Connections that were closed because too many processes died while they handled them.
    pub(crate) refused: usize,
    /// Connections that may have been the dead child's.
    pub(crate) orphans: Option<Orphans>,
}

/// Connections without an entry, of which one may be a dead child's.
#[derive(Debug)]
pub(crate) struct Orphans {
    /// The worker that gets the connection.
    worker: usize,
    /// Numbers and cookies.
    found: Vec<(RawFd, u64)>,
    /// Children that were in a section, and the section's number.
    awaited: Vec<(usize, u64)>,
}

/// Gives the connections of a dead child to its successor.
pub(crate) fn rescue(shared: &Shared, worker: usize) -> io::Result<Rescued> {
    let words = shared.ledger.child(worker);
    let current = words.current().swap(0, SeqCst);
    let mut rescued = Rescued::default();
    let (mut found, mut handed) = (Vec::new(), 0);
    for number in open_numbers()? {
        let descriptor = numbers::borrow(number);
        let (Ok(cookie), Some(entry)) = (socket_cookie(descriptor), shared.ledger.entry(number)) else {
            continue;
        };
        if !entry.is_of(cookie) {
            found.push((number, cookie));
        } else if entry.owner() == worker {
            if current == number as u64 + 1 {
                if entry.add_death() >= DEATHS_MAX {
                    rescued.refused += 1;
                    numbers::close(number);
                    continue;
                }
                // The child may have been killed in `settle`.
                if entry.pending().is_none()
                    && let Ok(progress) = tcp_progress(descriptor)
                {
                    entry.set_base(progress);
                }
            }
            rescued.inherited += 1;
            match entry.idle_of(worker) {
                Some(was) => handed += u64::from(was.handed),
                // The dead child was handling it, or was killed before it let it go.
                None => entry.let_go(worker, true),
            }
            // The dead child may have taken an event that it did not handle.
            shared.watch_again(worker, number, epolls::BOTH)?;
        }
    }
    words.open().store(rescued.inherited as u64, SeqCst);
    // The child may have been killed between taking one and counting that.
    words.handed().store(handed, SeqCst);
    if in_section(words.section().load(SeqCst)) {
        words.section().fetch_add(1, SeqCst);
        found.retain(|(number, _)| is_accepted(shared, *number));
        let sections =
            (0..shared.epolls.len()).map(|other| (other, shared.ledger.child(other).section().load(SeqCst)));
        let awaited = sections.filter(|(_, section)| in_section(*section)).collect();
        rescued.orphans = Some(Orphans { worker, found, awaited });
    }
    Ok(rescued)
}

impl Orphans {
    /// Returns whether the search is over.
    pub(crate) fn adopt(&mut self, shared: &Shared) -> io::Result<bool> {
        self.awaited
            .retain(|(child, section)| shared.ledger.child(*child).section().load(SeqCst) == *section);
        if !self.awaited.is_empty() {
            return Ok(false);
        }
        for (number, cookie) in self.found.drain(..) {
            // The connection was closed meanwhile, and the number may be another's.
            if socket_cookie(numbers::borrow(number)) != Ok(cookie) {
                continue;
            }
            if shared.ledger.entry(number).is_some_and(|entry| !entry.is_of(cookie)) {
                give(shared, self.worker, number, cookie);
            }
        }
        Ok(true)
    }
}

/// Gives a connection that was just accepted to a child, and adds it to the child's epoll. Returns `false` if it was closed instead, as
/// the kernel has no memory for that.
pub(crate) fn give(shared: &Shared, worker: usize, number: RawFd, cookie: u64) -> bool {
    let Some(entry) = shared.ledger.new_entry(number) else {
        numbers::close(number);
        return false;
    };
    count_handed(shared, worker);
    entry.begin_handed(cookie, worker);
    let is_watched = watch_handed(shared, worker, number, epolls::READ);
    if !is_watched && entry.take(worker).is_some() {
        close_untaken(shared, worker, number);
    }
    is_watched
}

/// Hands a connection that a child does not handle to another one. Returns `false` if the child has begun with it meanwhile, or if the
/// kernel has no memory for that.
pub(crate) fn hand_on(shared: &Shared, number: RawFd, from: usize, to: usize) -> bool {
    let Some(entry) = shared.ledger.entry(number) else { return false };
    // Before the child can take it.
    count_handed(shared, to);
    let Some(was) = entry.hand_on(from, to) else {
        count_moved(shared, to, true);
        return false;
    };
    count_moved(shared, from, was.handed);
    shared.ignore(from, number);
    // One that was never handled has perhaps sent nothing.
    let flags = if was.handed && !was.awaits_room { epolls::READ } else { epolls::BOTH };
    if watch_handed(shared, to, number, flags) {
        return true;
    }
    // Back to where it was: that epoll has just become smaller.
    count_handed(shared, from);
    if entry.hand_on(to, from).is_none() {
        // The child has taken it after all: it had an event of an earlier connection with this number.
        count_moved(shared, from, true);
        return true;
    }
    count_moved(shared, to, true);
    if !watch_handed(shared, from, number, epolls::BOTH) && entry.take(from).is_some() {
        close_untaken(shared, from, number);
    }
    false
}

/// Before the child can take it.
fn count_handed(shared: &Shared, worker: usize) {
    let words = shared.ledger.child(worker);
    for count in [words.open(), words.taken(), words.handed()] {
        count.fetch_add(1, Relaxed);
    }
}

/// It is another's.
fn count_moved(shared: &Shared, worker: usize, was_handed: bool) {
    let words = shared.ledger.child(worker);
    for count in [words.open(), words.taken()] {
        count.fetch_sub(1, Relaxed);
    }
    if was_handed {
        words.handed().fetch_sub(1, Relaxed);
    }
}

/// The caller has taken it in the child's name.
fn close_untaken(shared: &Shared, worker: usize, number: RawFd) {
    let words = shared.ledger.child(worker);
    for count in [words.open(), words.handed()] {
        count.fetch_sub(1, Relaxed);
    }
    numbers::close(number);
}

/// Returns `false` if the kernel has no memory for that.
fn watch_handed(shared: &Shared, worker: usize, number: RawFd, flags: EventFlags) -> bool {
    match shared.watch(worker, number, flags) {
        // The child had an event of an earlier connection with this number: it has this one, or has closed it already.
        Ok(()) | Err(Errno::BADF | Errno::EXIST) => true,
        Err(_) => false,
    }
}

fn in_section(section: u64) -> bool {
    !section.is_multiple_of(2)
}

/// Whether a socket was accepted from a listener of the pool: it has the listener's name and does not listen.
fn is_accepted(shared: &Shared, number: RawFd) -> bool {
    let socket = numbers::borrow(number);
    let has_name = shared.listeners.first().is_some_and(|listener| {
        match (bound_address(socket), listener.address()) {
            // A listener that is bound to all addresses has connections to each.
            (Some(Address::Tcp(name)), Address::Tcp(ours)) => name.port() == ours.port(),
            (Some(name), ours) => name == *ours,
            (None, _) => false,
        }
    });
    has_name && socket_acceptconn(socket) == Ok(false)
}

/// The descriptors that are open now, and the one that reads the directory.
fn open_numbers() -> io::Result<Vec<RawFd>> {
    let names = std::fs::read_dir("/proc/self/fd")?;
    names
        .map(|name| Ok(name?.file_name().to_str().and_then(|name| name.parse().ok())))
        .filter_map(Result::transpose)
        .collect()
}
