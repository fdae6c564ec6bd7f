//! The master accepts for all children, and puts each connection into the epoll of the child that gets it. From a child that does not
//! come around it takes back what that child has not begun with.

use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use bbq_listen::for_prefork::concerns_one_connection;
use bbq_listen::{ACCEPTS_PER_BATCH_MAX, HandoffRule};
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::socket_cookie;
use rustix::net::{SocketFlags, accept_with};

use crate::epolls::{self, Source};
use crate::rescue::{give, hand_on};
use crate::shared::Shared;

/// Why a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchEnd {
    Drained,
    More,
    Starved,
}

#[derive(Debug)]
pub(crate) struct Handoff {
    rule: HandoffRule,
    /// The worker that got the last connection.
    last: usize,
}

impl Handoff {
    pub(crate) fn new(rule: HandoffRule, shared: &Shared, epoll: &OwnedFd) -> io::Result<Self> {
        let handoff = Self { rule, last: shared.epolls.len() - 1 };
        handoff.listen(shared, epoll)?;
        Ok(handoff)
    }

    /// Adds the listener to the master's epoll, unless it is there.
    pub(crate) fn listen(&self, shared: &Shared, epoll: &OwnedFd) -> io::Result<()> {
        match epolls::add(epoll, &shared.listeners[0], Source::Listener(0), EventFlags::IN) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes it.
    pub(crate) fn listen_no_more(&self, shared: &Shared, epoll: &OwnedFd) {
        let _not_there = epoll::delete(epoll, &shared.listeners[0]);
    }

    /// Accepts a bounded number of connections and hands them over. When descriptors or memory ran out, the listener is removed
    /// from the epoll until [`listen`](Self::listen) is called.
    pub(crate) fn accept_batch(&mut self, shared: &Shared, epoll: &OwnedFd) -> io::Result<BatchEnd> {
        for _ in 0..ACCEPTS_PER_BATCH_MAX {
            match accept_with(&shared.listeners[0], SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(stream) => {
                    let cookie = socket_cookie(&stream)?;
                    self.last = self.next(shared);
                    give(shared, self.last, stream.into_raw_fd(), cookie)?;
                }
                Err(Errno::AGAIN) => return Ok(BatchEnd::Drained),
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    self.listen_no_more(shared, epoll);
                    return Ok(BatchEnd::Starved);
                }
                Err(errno) if concerns_one_connection(errno) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(BatchEnd::More)
    }

    /// Hands what a stalled child has not taken to the others. Returns how many connections that were.
    pub(crate) fn take_back(&mut self, shared: &Shared, stalled: usize) -> io::Result<u64> {
        let mut moved = 0;
        if shared.ledger.child(stalled).handed().load(Relaxed) == 0 {
            return Ok(0);
        }
        for number in 0..shared.ledger.numbers() {
            if shared.ledger.entry(number).is_none_or(|entry| !entry.is_handed_to(stalled)) {
                continue;
            }
            let Some(next) = self.able(shared) else { break };
            self.last = next;
            moved += u64::from(hand_on(shared, number, stalled, next)?);
        }
        Ok(moved)
    }

    fn next(&self, shared: &Shared) -> usize {
        // If none comes around, one that has a process; without any process, whoever is started next.
        let present = || self.in_turn(shared).find(|worker| !shared.is_absent(*worker));
        self.able(shared).or_else(present).unwrap_or((self.last + 1) % shared.epolls.len())
    }

    /// The child that gets the next connection, of those that come around.
    fn able(&self, shared: &Shared) -> Option<usize> {
        let mut able =
            self.in_turn(shared).filter(|worker| !shared.is_absent(*worker) && !shared.is_stalled(*worker));
        match self.rule {
            HandoffRule::Fewest => {
                able.min_by_key(|worker| shared.ledger.child(*worker).open().load(Relaxed))
            }
            _ => able.next(),
        }
    }

    fn in_turn(&self, shared: &Shared) -> impl Iterator<Item = usize> {
        let (last, children) = (self.last, shared.epolls.len());
        (1..=children).map(move |step| (last + step) % children)
    }
}
