//! The master accepts for all children, and puts each connection into the epoll of the child that gets it.

use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};

use bbq_listen::ACCEPTS_PER_BATCH_MAX;
use bbq_listen::for_prefork::concerns_one_connection;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::socket_cookie;
use rustix::net::{SocketFlags, accept_with};

use crate::epolls::{self, Source};
use crate::rescue::give;
use crate::shared::Shared;
use crate::turns::Turns;

/// Why a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchEnd {
    Drained,
    More,
    Starved,
}

/// Adds the listener to the master's epoll, unless it is there.
pub(crate) fn listen(shared: &Shared, epoll: &OwnedFd) -> io::Result<()> {
    match epolls::add(epoll, &shared.listeners[0], Source::Listener(0), EventFlags::IN) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes it.
pub(crate) fn listen_no_more(shared: &Shared, epoll: &OwnedFd) {
    let _not_there = epoll::delete(epoll, &shared.listeners[0]);
}

/// Accepts a bounded number of connections and hands them over. When descriptors or memory ran out, the listener is removed from the
/// epoll until [`listen`] is called.
pub(crate) fn accept_batch(shared: &Shared, epoll: &OwnedFd, turns: &mut Turns) -> io::Result<BatchEnd> {
    for _ in 0..ACCEPTS_PER_BATCH_MAX {
        let is_starved = match accept_with(&shared.listeners[0], SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
        {
            Ok(stream) => {
                let cookie = socket_cookie(&stream)?;
                !give(shared, turns.next(shared), stream.into_raw_fd(), cookie)
            }
            Err(Errno::AGAIN) => return Ok(BatchEnd::Drained),
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => true,
            Err(errno) if concerns_one_connection(errno) => false,
            Err(errno) => return Err(errno.into()),
        };
        if is_starved {
            listen_no_more(shared, epoll);
            return Ok(BatchEnd::Starved);
        }
    }
    Ok(BatchEnd::More)
}
