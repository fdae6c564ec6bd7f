//! At which sockets of a group something waits.

use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Socket;
use crate::dispatch::armed_in::ArmedIn;
use crate::dispatch::epoll_set::EpollSet;
use crate::sockets::group::Inner;

/// The sockets of a group at which something waited when they were looked at.
pub(crate) struct Arrived<'a> {
    sockets: &'a [Arc<Socket>],
    is_readable: Vec<bool>,
}

impl Arrived<'_> {
    /// Looks at all sockets, with one system call.
    pub(crate) fn at(sockets: &[Arc<Socket>]) -> Arrived<'_> {
        let mut polled: Vec<PollFd<'_>> =
            sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // After an interrupted call nothing is known, and the next look is soon.
        let _count = poll(&mut polled, Some(&now));
        let is_readable = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        Arrived { sockets, is_readable }
    }

    /// Whether something waits that only this worker would take. `own` is its own socket.
    pub(crate) fn for_worker(&self, group: &Inner, epoll_set: &EpollSet, own: Option<&Socket>) -> bool {
        let mut readable =
            self.sockets.iter().zip(&self.is_readable).filter(|(_, is_readable)| **is_readable);
        readable.any(|(socket, _)| {
            own.is_some_and(|own| own.index() == socket.index())
                || group.dispatch.armed_in(socket) == ArmedIn::Worker(epoll_set.worker())
        }) || epoll_set.inbox().is_some_and(|inbox| inbox.len() > 0)
            || epoll_set.handed().is_some_and(|inbox| !inbox.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::dispatch::handed::Handed;
    use crate::io::receiver::Receiver;
    use crate::{Group, PeerAddress};

    #[test]
    fn a_datagram_that_was_handed_to_a_worker_waits_for_it() {
        let group = Group::at("udp://127.0.0.1:0").unwrap().workers(2).open().unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let receiver = |worker| Receiver::new(group.worker_listener(worker).unwrap(), 64).unwrap();
        let _receivers = [0, 1].map(receiver);
        let dispatch = &group.inner().dispatch;
        let waits = |worker: usize| {
            let sockets = dispatch.sockets();
            let own = Some(&*sockets[worker]);
            Arrived::at(&sockets).for_worker(group.inner(), &dispatch.epoll_set(worker).unwrap(), own)
        };
        let handed =
            Handed { bytes: Box::new([1]), peer: PeerAddress(Some(peer)), truncated: false, local: None };
        dispatch.hand(1, handed).unwrap();
        assert_eq!([waits(0), waits(1)], [false, true]);
    }
}
