//! What becomes of the connections of a child that died: its successor has them.
//!
//! Most stand in the ledger as the dead child's. One may not: it was accepted, and the process killed before it could write
//! that down. Such a connection looks like those that living children accept at this moment; so it is set aside until each of
//! them has left the section that it was in. What has no entry then was the dead one's.
//!
//! Invariant: the master does this, one death after the other.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use bbq_listen::for_prefork::{borrow_number, close_number, tcp_progress};
use bbq_listen::{Address, bound_address};
use rustix::net::sockopt::{socket_acceptconn, socket_cookie};

use crate::epolls;
use crate::shared::Shared;

/// A connection in hand at so many deaths, without an answer in between, is what kills: it is closed.
const STRIKES_MAX: u64 = 3;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Rescued {
    /// Connections that go over to the successor.
    pub(crate) inherited: usize,
    /// Connections that were closed, because too many died of them.
    pub(crate) refused: usize,
    /// Connections that may be the dead one's.
    pub(crate) orphans: Option<Orphans>,
}

/// Connections without an entry, of which one may be a dead child's.
#[derive(Debug)]
pub(crate) struct Orphans {
    /// The worker that gets the connection.
    worker: usize,
    /// Number and cookie.
    found: Vec<(RawFd, u64)>,
    /// Children that were in a section, and what its number was.
    awaited: Vec<(usize, u64)>,
}

/// Lets the successor of a dead child have its connections.
pub(crate) fn rescue(shared: &Shared, worker: usize) -> io::Result<Rescued> {
    let words = shared.ledger.child(worker);
    let in_hand = words.in_hand().swap(0, SeqCst);
    let mut rescued = Rescued::default();
    let mut found = Vec::new();
    for number in open_numbers()? {
        let descriptor = borrow_number(number);
        let (Ok(cookie), Some(entry)) = (socket_cookie(descriptor), shared.ledger.entry(number)) else {
            continue;
        };
        if !entry.is_of(cookie) {
            found.push((number, cookie));
        } else if entry.owner() == worker {
            if in_hand == number as u64 + 1 {
                if entry.add_strike() >= STRIKES_MAX {
                    rescued.refused += 1;
                    close_number(number);
                    continue;
                }
                // It may have been killed while it wrote down that an answer has ended.
                if entry.pending().is_none()
                    && let Ok(progress) = tcp_progress(descriptor)
                {
                    entry.set_base(progress);
                }
            }
            rescued.inherited += 1;
            // What it was ready for may have been an event that nobody saw to.
            shared.watch_again(worker, number, epolls::BOTH)?;
        }
    }
    words.open().store(rescued.inherited as u64, SeqCst);
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
            // Closed meanwhile, or another one.
            if socket_cookie(borrow_number(number)) != Ok(cookie) {
                continue;
            }
            if shared.ledger.entry(number).is_some_and(|entry| !entry.is_of(cookie)) {
                give(shared, self.worker, number, cookie)?;
            }
        }
        Ok(true)
    }
}

/// Makes a connection that was just accepted that of a child, which is told.
pub(crate) fn give(shared: &Shared, worker: usize, number: RawFd, cookie: u64) -> io::Result<()> {
    let Some(entry) = shared.ledger.entry(number) else {
        close_number(number);
        return Ok(());
    };
    let words = shared.ledger.child(worker);
    words.open().fetch_add(1, Relaxed);
    words.taken().fetch_add(1, Relaxed);
    entry.begin(cookie, worker);
    Ok(shared.watch(worker, number, epolls::READ)?)
}

fn in_section(section: u64) -> bool {
    !section.is_multiple_of(2)
}

/// Whether a socket was accepted from one of the pool's: it has their name and does not listen.
fn is_accepted(shared: &Shared, number: RawFd) -> bool {
    let socket = borrow_number(number);
    let has_name = shared.listeners.first().is_some_and(|listener| {
        match (bound_address(socket), listener.address()) {
            // One that is bound to all addresses has connections to each.
            (Some(Address::Tcp(name)), Address::Tcp(ours)) => name.port() == ours.port(),
            (Some(name), ours) => name == *ours,
            (None, _) => false,
        }
    });
    has_name && socket_acceptconn(socket) == Ok(false)
}

/// The descriptors that are open now, and the one that this is asked with.
fn open_numbers() -> io::Result<Vec<RawFd>> {
    let names = std::fs::read_dir("/proc/self/fd")?;
    names
        .map(|name| Ok(name?.file_name().to_str().and_then(|name| name.parse().ok())))
        .filter_map(Result::transpose)
        .collect()
}
