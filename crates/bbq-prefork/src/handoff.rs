//! The master accepts for all children, and puts each connection into the epoll of the child that gets it.

use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use bbq_listen::for_prefork::concerns_one_connection;
use bbq_listen::{ACCEPTS_PER_BATCH_MAX, AcceptState, HandoffRule};
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::socket_cookie;
use rustix::net::{SocketFlags, accept_with};

use crate::epolls::{self, Source};
use crate::rescue::give;
use crate::shared::Shared;

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

    /// Accepts a bounded number of connections and hands them over. When descriptors or memory ran out, the listener is removed
    /// from the epoll until [`listen`](Self::listen) is called.
    pub(crate) fn accept_batch(&mut self, shared: &Shared, epoll: &OwnedFd) -> io::Result<AcceptState> {
        for _ in 0..ACCEPTS_PER_BATCH_MAX {
            match accept_with(&shared.listeners[0], SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(stream) => {
                    let cookie = socket_cookie(&stream)?;
                    self.last = self.next(shared);
                    give(shared, self.last, stream.into_raw_fd(), cookie)?;
                }
                Err(Errno::AGAIN) => return Ok(AcceptState::Drained),
                Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    let _ = epoll::delete(epoll, &shared.listeners[0]);
                    return Ok(AcceptState::Starved(errno));
                }
                Err(errno) if concerns_one_connection(errno) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(AcceptState::More)
    }

    fn next(&self, shared: &Shared) -> usize {
        let children = shared.epolls.len();
        let in_turn = (1..=children).map(|step| (self.last + step) % children);
        match self.rule {
            HandoffRule::RoundRobin => (self.last + 1) % children,
            HandoffRule::Fewest => {
                in_turn.min_by_key(|worker| shared.ledger.child(*worker).open().load(Relaxed)).unwrap_or(0)
            }
        }
    }
}
