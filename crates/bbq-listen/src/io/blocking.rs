//! Accepts connections on a thread that waits for each: for servers of threads that block.
//!
//! Invariant: a call after a stop takes no connection after `DRAIN_TIMEOUT`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};

use crate::io::accepted::{AcceptState, Accepted};
use crate::io::acceptor::Acceptor;
use crate::limits::{DRAIN_TIMEOUT, STARVED_PAUSE};

impl Acceptor {
    /// Waits for a connection, and accepts it. For a thread that serves one connection at a time: its reads and writes wait, as
    /// those of `std::net::TcpListener` do. While it serves one for longer than a stall monitor allows, other workers take what
    /// is queued for it.
    ///
    /// It returns `None` when the server stops: `stop` is readable or hung up, and nothing is queued in the group any more, or
    /// [`DRAIN_TIMEOUT`] has passed. `stop` is any descriptor, such as that of a pipe whose other end is dropped. It is not read,
    /// so all workers can have the same. Call [`Group::pause`](crate::Group::pause) before: with `handoff` it ends the thread
    /// that accepts.
    ///
    /// The [`Heartbeat`](crate::Heartbeat) of the thread sleeps meanwhile. When no descriptor is left, this waits until there is
    /// one.
    ///
    /// # Errors
    /// If another try cannot succeed.
    pub fn accept_until(&self, stop: impl AsFd) -> io::Result<Option<Accepted>> {
        let stop = stop.as_fd();
        let mut wait = Wait::ForConnections;
        loop {
            let stops = self.wait(stop, wait)?;
            let mut next = None;
            let mut take = |accepted| next = Some(accepted);
            let outcome = if stops {
                if self.stops_since().elapsed() > DRAIN_TIMEOUT {
                    return Ok(None);
                }
                self.accept_anywhere(1, &mut take)?
            } else {
                self.accept_batch(1, &mut take)?
            };
            if let Some(accepted) = next {
                ioctl_fionbio(&accepted.stream, false)?;
                return Ok(Some(accepted));
            }
            wait = match outcome.state {
                AcceptState::Drained if stops => return Ok(None),
                AcceptState::Drained | AcceptState::More => Wait::ForConnections,
                AcceptState::Starved(_) if stops => Wait::Pause,
                AcceptState::Starved(_) => Wait::ForStop,
            };
        }
    }

    /// Returns whether the server stops.
    fn wait(&self, stop: BorrowedFd<'_>, wait: Wait) -> io::Result<bool> {
        let worker_listener = self.worker_listener();
        let shared = worker_listener.epoll_descriptor();
        let own = worker_listener.own().map_or(shared, |socket| socket.as_fd());
        let mut waits = [stop, shared, own].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let (count, timeout) = match wait {
            Wait::ForConnections => (waits.len(), None),
            Wait::ForStop => (1, Some(STARVED_PAUSE)),
            Wait::Pause => (0, Some(STARVED_PAUSE)),
        };
        let timespec = |pause: Duration| Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
        let heartbeat = self.heartbeat();
        match heartbeat.sleep_while(|| poll(&mut waits[..count], timeout.map(timespec).as_ref())) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(matches!(wait, Wait::Pause) || !waits[0].revents().is_empty())
    }
}

#[derive(Debug, Clone, Copy)]
enum Wait {
    ForConnections,
    /// Descriptors ran out.
    ForStop,
    /// Descriptors ran out during a stop.
    Pause,
}
