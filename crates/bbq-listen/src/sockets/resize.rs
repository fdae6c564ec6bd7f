//! Grows and shrinks a group that is being served.
//!
//! Invariant: one resize follows the other. Invariant: a resize that fails leaves the group as it was.

use std::sync::Arc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::dispatch::epoll_set::EpollSet;
use crate::dispatch::inboxes::redistribute;
use crate::limits::coarse_ms;
use crate::sockets::group::check_workers;
use crate::sockets::open::{Steps, open_more};
use crate::sockets::options::GroupOptions;
use crate::{Group, ListenError, Socket};

/// A new worker's socket, if it has one, and its epoll set.
type Added = (Option<Arc<Socket>>, Arc<EpollSet>);

impl Group {
    /// Grows or shrinks the group to `workers` workers.
    ///
    /// The listeners of new workers can be taken at once. The caller ends removed workers. (`Group::run_tokio` and `TokioRunner` do
    /// both.) The other workers take what is queued on
    /// their sockets, or still arrives there. These sockets are closed when they are empty and some seconds have passed (by the
    /// [`StallMonitor`](crate::StallMonitor), or by [`close_removed`](Self::close_removed)).
    ///
    /// Senders of datagrams that sent something within the last half minute stay with their workers, except those of removed ones;
    /// other senders are spread over all workers at once. A new worker hands the datagrams of those that stay on to their worker.
    ///
    /// # Errors
    /// If the number is out of range, a socket cannot be opened, another program has a socket in the group of the kernel
    /// ([`ListenError::ForeignMembers`]), or the kernel refuses the program that chooses among the sockets. Then the group stays as it
    /// was.
    pub fn resize(&self, workers: usize) -> Result<(), ListenError> {
        check_workers(&GroupOptions { workers, ..self.options.clone() })?;
        // Held to the end, so that no socket of a worker that is added again is closed, and one resize follows the other.
        let mut removed = self.inner.removed();
        let before = self.workers();
        let added = self.added(before, workers)?;
        self.steer_for(workers, &added)?;
        let dispatch = &self.inner.dispatch;
        for (socket, epoll_set) in added {
            dispatch.push(socket.clone(), epoll_set);
            socket.inspect(|socket| dispatch.retry(socket));
        }
        for _ in workers..before {
            let Some(epoll_set) = dispatch.pop_epoll_set() else { break };
            for socket in dispatch.sockets() {
                dispatch.pass(&socket, epoll_set.worker());
            }
            redistribute(&dispatch.epoll_sets(), &epoll_set);
            removed.since = Some(Instant::now());
            removed.epoll_sets.push(epoll_set);
        }
        for socket in dispatch.sockets() {
            // All workers serve the sockets of removed workers, and that of a worker that was alone.
            let is_left = socket.worker().map_or(workers > 1, |worker| worker >= workers);
            if is_left {
                dispatch.share(&socket);
            }
        }
        #[cfg(feature = "tokio")]
        self.inner.resized.send_replace(());
        Ok(())
    }

    /// What new workers need. Nothing refers to it yet: dropped, it leaves no trace.
    fn added(&self, before: usize, workers: usize) -> Result<Vec<Added>, ListenError> {
        let step = Steps { address: &self.inner.address };
        let with_inbox = self.distribution().has_inboxes() || self.inner.dispatch.balance().is_on();
        let epoll_sets: Result<Vec<EpollSet>, ListenError> = (before..workers)
            .map(|worker| EpollSet::new(worker, with_inbox))
            .map(|created| created.map_err(|error| step.failed("epoll_create", error.into())))
            .collect();
        let epoll_sets = epoll_sets?;
        if self.inner.dispatch.conversations().is_some() {
            let opened = epoll_sets.iter().try_for_each(EpollSet::open_handed);
            opened.map_err(|error| step.failed("eventfd", error.into()))?;
        }
        // Removed workers may have left sockets, which are open still.
        let open = self.inner.dispatch.sockets().len();
        let missing = if self.distribution().is_reuseport() { workers.saturating_sub(open) } else { 0 };
        if missing > 0 {
            self.refuse_foreign()?;
        }
        // Last, as clients come to them at once.
        let mut descriptors = open_more(&self.options, missing)?.into_iter();
        let added = epoll_sets.into_iter().map(|epoll_set| {
            let worker = epoll_set.worker();
            let descriptor = if worker >= open { descriptors.next() } else { None };
            let socket = descriptor.map(|descriptor| {
                let address = self.inner.address.clone();
                Arc::new(Socket::new(descriptor, worker, Some(worker), address, self.receive_buffer_bytes))
            });
            (socket, Arc::new(epoll_set))
        });
        Ok(added.collect())
    }

    /// A program names sockets by their places in the kernel's group. Behind sockets of others the places of new ones are unknown.
    fn refuse_foreign(&self) -> Result<(), ListenError> {
        let address = &self.inner.address;
        // Where netlink is blocked nobody knows.
        let members = self.foreign_members().unwrap_or_default();
        let inside = members.iter().filter(|member| Some(member.address) == address.socket_address());
        let inside: Vec<_> = inside.collect();
        let Some(first) = inside.first() else { return Ok(()) };
        Err(ListenError::ForeignMembers {
            address: address.clone(),
            members: inside.len(),
            holder: first.holder(),
        })
    }

    /// Attaches the program for `workers` workers, of which `added` are new.
    fn steer_for(&self, workers: usize, added: &[Added]) -> Result<(), ListenError> {
        let dispatch = &self.inner.dispatch;
        let (mut sockets, mut epoll_sets) = (dispatch.sockets(), dispatch.epoll_sets());
        sockets.extend(added.iter().filter_map(|(socket, _)| socket.clone()));
        epoll_sets.extend(added.iter().map(|(_, epoll_set)| Arc::clone(epoll_set)));
        let mut steered = self.inner.steered();
        let mut new = steered.clone();
        new.resize(workers);
        let before = self.workers();
        // Without a program only one socket has the senders of its slots: all. It takes no program before there is a second one.
        let follows_layout = steered.is_attached() || dispatch.sockets().len() == 1;
        let conversations = dispatch.conversations().filter(|_| follows_layout).zip(new.layout());
        if let Some((conversations, layout)) = &conversations
            && workers > before
        {
            conversations.grow(layout.clone(), workers, coarse_ms());
        }
        new.apply(&sockets, &epoll_sets);
        match &conversations {
            Some((conversations, _)) if workers > before && !new.is_attached() => conversations.undo(before),
            Some((conversations, _)) if workers > before => {
                conversations.swapped(|worker| {
                    let is_idle = epoll_sets.get(worker).is_some_and(|epoll_set| epoll_set.is_idle());
                    is_idle && sockets.get(worker).is_some_and(|socket| !is_readable(socket))
                });
            }
            Some((conversations, layout)) if new.is_attached() => {
                conversations.shrink(layout.clone(), workers)
            }
            _ => {}
        }
        if let Some(refusal) = new.refusal() {
            return Err(ListenError::UnsupportedSteering {
                address: self.inner.address.clone(),
                steering: new.steering().clone(),
                reason: refusal.to_owned(),
            });
        }
        *steered = new;
        Ok(())
    }
}

fn is_readable(socket: &Socket) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&now)) != Ok(0)
}
