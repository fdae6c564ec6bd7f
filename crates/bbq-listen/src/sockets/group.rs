//! A group: all the sockets that listen on one address, and a listener for each worker.
//!
//! It accepts nothing: the workers do, or the acceptor thread (`handoff`).
//!
//! Invariant: a socket keeps its index for as long as the group is open.
//! Invariant: a socket is open as long as the group is, unless its worker was removed and nothing waits on it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::dispatch::Dispatch;
use crate::dispatch::epoll_set::EpollSet;
use crate::dispatch::handoff::Handoff;
use crate::dispatch::inboxes::redistribute;
use crate::limits::WORKERS_MAX;
use crate::sockets::adopt::adopt;
use crate::sockets::open::{Opened, Steps, open, open_another};
use crate::sockets::options::GroupOptions;
use crate::sockets::unix_path::OwnedPath;
use crate::steering::applied::AppliedSteering;
use crate::{Address, Distribution, ListenError, Socket, Steering, WorkerListener};

/// How long the socket of a removed worker stays open at least, so that handshakes can complete. A connection whose handshake
/// completes on a closed socket is reset (unless `net.ipv4.tcp_migrate_req` is set).
const REMOVED_LINGER: Duration = Duration::from_secs(3);

/// All the sockets that listen on one address, opened once by their owner.
///
/// Keep it while any worker serves. When it is dropped, the file of a unix socket is removed; the sockets are closed with the last
/// worker listener. The kernel resets connections that are queued on a socket when it is closed.
#[derive(Debug)]
pub struct Group {
    // Dropped first: while a socket is open, no other file gets its inode number.
    path: Option<OwnedPath>,
    handoff: Mutex<Option<Handoff>>,
    inner: Arc<Inner>,
    options: GroupOptions,
    fallback: Option<String>,
    receive_buffer_bytes: Option<u32>,
}

/// The part of a group that worker listeners and the stall monitor share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) address: Address,
    pub(crate) dispatch: Arc<Dispatch>,
    steered: Mutex<AppliedSteering>,
    removed: Mutex<Removed>,
}

/// Removed workers whose sockets may still be open.
#[derive(Debug, Default)]
struct Removed {
    /// When the last one was removed.
    since: Option<Instant>,
    epoll_sets: Vec<Arc<EpollSet>>,
}

impl Group {
    /// Opens every socket of the group.
    ///
    /// It refuses an address that another socket listens on, also one of this process, and names the holder if /proc tells. Of
    /// servers that are started at the same moment, one gets the address.
    pub fn open(options: &GroupOptions) -> Result<Self, ListenError> {
        check_workers(options)?;
        Self::of(options, open(options)?)
    }

    /// Makes a group of sockets that another program opened: the one before an upgrade, or systemd. Their order is their index.
    ///
    /// Each must have the transport and address of `options` (with port 0 any port, the same for all), and listen. One socket is
    /// shared; several must be one for each worker. The descriptors become close-on-exec and non-blocking, and backlog and receive
    /// buffer are set as in `options`.
    ///
    /// The file of a unix socket is not removed when the group closes: see [`set_owns_file`](Self::set_owns_file).
    ///
    /// To hand over the sockets of a group, pass the descriptors of [`sockets`](Self::sockets) in their order.
    pub fn adopt(options: &GroupOptions, sockets: Vec<OwnedFd>) -> Result<Self, ListenError> {
        check_workers(options)?;
        Self::of(options, adopt(options, sockets)?)
    }

    fn of(options: &GroupOptions, opened: Opened) -> Result<Self, ListenError> {
        let step = Steps { address: &opened.address };
        let own = opened.distribution.is_reuseport();
        let receive_buffer_bytes = opened.receive_buffer_bytes;
        let sockets: Vec<_> = (0..)
            .zip(opened.sockets)
            .map(|(index, descriptor)| {
                let worker = own.then_some(index);
                Arc::new(Socket::new(descriptor, index, worker, opened.address.clone(), receive_buffer_bytes))
            })
            .collect();
        let with_inbox = matches!(opened.distribution, Distribution::Handoff(_));
        let epoll_sets = (0..options.workers).map(|worker| EpollSet::new(worker, with_inbox).map(Arc::new));
        let epoll_sets = epoll_sets
            .collect::<Result<_, _>>()
            .map_err(|error| step.failed("epoll_create", error.into()))?;
        let steered = AppliedSteering::new(options, opened.distribution, &sockets)?;
        let dispatch = Arc::new(Dispatch::new(opened.distribution, sockets, epoll_sets));
        let handoff = start_handoff(&dispatch, &opened.address)?;
        Ok(Self {
            path: opened.path,
            handoff: Mutex::new(handoff),
            inner: Arc::new(Inner {
                address: opened.address.clone(),
                dispatch,
                steered: Mutex::new(steered),
                removed: Mutex::default(),
            }),
            options: GroupOptions { address: opened.address, ..options.clone() },
            fallback: opened.fallback,
            receive_buffer_bytes,
        })
    }

    /// Whether the file of a unix socket is removed when the group closes: by default, if the group created it.
    pub fn owns_file(&self) -> bool {
        self.path.as_ref().is_some_and(OwnedPath::is_ours)
    }

    /// Sets whether the group removes the file of a unix socket. A program that has handed its sockets over must not.
    pub fn set_owns_file(&self, owns: bool) {
        if let Some(path) = &self.path {
            path.set_ours(owns);
        }
    }

    /// The address it listens on, with the port that the system chose.
    pub fn local_address(&self) -> &Address {
        &self.inner.address
    }

    /// The configured distribution.
    pub fn configured(&self) -> Distribution {
        self.options.distribution
    }

    /// The distribution in use; never `auto`.
    pub fn distribution(&self) -> Distribution {
        self.inner.dispatch.distribution()
    }

    /// Why the distribution in use is not the configured one, or not the first choice of `auto`.
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// What chooses the socket of a sender; `None` if there is only one socket.
    pub fn steering(&self) -> Option<String> {
        self.inner.steered().describe()
    }

    /// Changes the steering. Queued and open connections stay where they are; senders of datagrams may change their worker. If the
    /// steering is in force already, nothing changes.
    ///
    /// # Errors
    /// If the group cannot be steered that way, or the system refuses. Then the steering stays as it was.
    pub fn set_steering(&self, steering: &Steering) -> Result<(), ListenError> {
        if self.inner.steered().is_in_force(steering) {
            return Ok(());
        }
        let options =
            GroupOptions { steering: steering.clone(), workers: self.workers(), ..self.options.clone() };
        let new = AppliedSteering::new(&options, self.distribution(), &self.inner.dispatch.sockets())?;
        *self.inner.steered() = new;
        self.inner.steer();
        Ok(())
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.inner.dispatch.epoll_sets().len()
    }

    /// Its sockets in the order of their index, for a while also those of removed workers.
    pub fn sockets(&self) -> Vec<Arc<Socket>> {
        self.inner.dispatch.sockets()
    }

    /// Connections or datagrams that each worker took from any socket.
    pub fn taken(&self) -> Vec<u64> {
        self.inner.dispatch.epoll_sets().iter().map(|epoll_set| epoll_set.taken()).collect()
    }

    /// Grows or shrinks the group to `workers` workers.
    ///
    /// The listeners of new workers can be taken at once. The caller ends removed workers. The other workers take what is queued on
    /// their sockets, or still arrives there. These sockets are closed when they are empty and some seconds have passed (by the
    /// [`StallMonitor`](crate::StallMonitor), or by [`close_removed`](Self::close_removed)). Senders of datagrams stay with their
    /// workers, except those of removed ones.
    ///
    /// # Errors
    /// If the number is out of range, or a socket cannot be opened. Then the group stays as it was.
    pub fn resize(&self, workers: usize) -> Result<(), ListenError> {
        check_workers(&GroupOptions { workers, ..self.options.clone() })?;
        let before = self.workers();
        let dispatch = &self.inner.dispatch;
        // Held to the end, so that no socket of a worker that is added again is closed.
        let mut removed = self.inner.removed();
        if workers > before {
            self.grow(before, workers)?;
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
        drop(removed);
        self.inner.steered().resize(workers, dispatch.seen());
        self.inner.steer();
        Ok(())
    }

    fn grow(&self, before: usize, workers: usize) -> Result<(), ListenError> {
        let step = Steps { address: &self.inner.address };
        let with_inbox = matches!(self.distribution(), Distribution::Handoff(_));
        let sockets = self.inner.dispatch.sockets();
        let mut new = Vec::new();
        for worker in before..workers {
            let epoll_set = EpollSet::new(worker, with_inbox)
                .map_err(|error| step.failed("epoll_create", error.into()))?;
            let is_missing = self.distribution().is_reuseport() && sockets.len() <= worker;
            let socket = if is_missing { Some(open_another(&self.options)?) } else { None };
            new.push((epoll_set, socket));
        }
        for (epoll_set, descriptor) in new {
            let worker = epoll_set.worker();
            let socket = descriptor.map(|descriptor| {
                let address = self.inner.address.clone();
                Arc::new(Socket::new(descriptor, worker, Some(worker), address, self.receive_buffer_bytes))
            });
            self.inner.dispatch.push(socket.clone(), Arc::new(epoll_set));
            if let Some(socket) = socket {
                self.inner.dispatch.retry(&socket);
            }
        }
        Ok(())
    }

    /// Closes the empty sockets of removed workers. Returns whether some are left.
    pub fn close_removed(&self) -> bool {
        self.inner.close_removed()
    }

    /// The listener of worker `worker`, counted from 0. A restarted worker may take it again.
    pub fn worker_listener(&self, worker: usize) -> Result<WorkerListener, ListenError> {
        self.worker_listener_at(worker).ok_or_else(|| ListenError::NoSuchWorker {
            address: self.inner.address.clone(),
            worker,
            workers: self.workers(),
        })
    }

    /// The listeners of all workers, in their order.
    pub fn worker_listeners(&self) -> impl ExactSizeIterator<Item = WorkerListener> {
        let worker_listeners: Vec<WorkerListener> =
            (0..self.workers()).filter_map(|worker| self.worker_listener_at(worker)).collect();
        worker_listeners.into_iter()
    }

    fn worker_listener_at(&self, worker: usize) -> Option<WorkerListener> {
        let dispatch = &self.inner.dispatch;
        let epoll_set = dispatch.epoll_set(worker)?;
        let own = dispatch.sockets().into_iter().find(|socket| dispatch.is_own_of(socket, worker));
        Some(WorkerListener::new(
            self.inner.address.clone(),
            own,
            dispatch.socket(0)?,
            epoll_set,
            Arc::clone(dispatch),
        ))
    }

    /// Call this when all workers end and others will start, perhaps in another process. What is queued, and what arrives
    /// meanwhile, stays in the kernel's queue of each worker. The first worker that serves again ends the pause.
    ///
    /// With `handoff` the acceptor thread ends; the workers have to take what is in their inboxes.
    pub fn pause(&self) {
        self.inner.dispatch.pause();
        drop(self.handoff.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Ends a pause. Call this right before workers serve again.
    ///
    /// # Errors
    /// If the acceptor thread of a `handoff` cannot be started.
    pub fn resume(&self) -> Result<(), ListenError> {
        let mut handoff = self.handoff.lock().unwrap_or_else(PoisonError::into_inner);
        if handoff.is_none() {
            *handoff = start_handoff(&self.inner.dispatch, &self.inner.address)?;
        }
        Ok(())
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

impl Inner {
    fn steered(&self) -> MutexGuard<'_, AppliedSteering> {
        self.steered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Steers connections away from workers that cannot take them, and back.
    pub(crate) fn steer(&self) {
        self.steered().apply(&self.dispatch.sockets(), &self.dispatch.epoll_sets());
    }

    fn removed(&self) -> MutexGuard<'_, Removed> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn close_removed(&self) -> bool {
        let mut removed = self.removed();
        let Some(since) = removed.since else { return false };
        let epoll_sets = self.dispatch.epoll_sets();
        removed.epoll_sets.retain(|epoll_set| {
            redistribute(&epoll_sets, epoll_set);
            epoll_set.is_served() || epoll_set.inbox().is_some_and(|inbox| inbox.len() > 0)
        });
        // If its worker still serves a socket, that worker would close it later, with what is queued on it by then.
        if since.elapsed() < REMOVED_LINGER || !removed.epoll_sets.is_empty() {
            return true;
        }
        let is_left = |socket: &Arc<Socket>| socket.worker() >= Some(epoll_sets.len());
        // From the end: the kernel moves the last socket of a group into the place of a closed one.
        while let Some(last) = self.dispatch.sockets().last().filter(|socket| is_left(socket)) {
            if last.queue().is_some_and(|state| state.queue > 0) {
                return true;
            }
            drop(self.dispatch.pop_socket());
        }
        removed.since = None;
        false
    }
}

fn start_handoff(dispatch: &Arc<Dispatch>, address: &Address) -> Result<Option<Handoff>, ListenError> {
    let (Distribution::Handoff(rule), Some(socket)) = (dispatch.distribution(), dispatch.socket(0)) else {
        return Ok(None);
    };
    let handoff = Handoff::start(Arc::clone(dispatch), socket, rule);
    let failed = |error| Steps { address }.failed("starting the acceptor thread", error);
    handoff.map(Some).map_err(failed)
}

fn check_workers(options: &GroupOptions) -> Result<(), ListenError> {
    if options.workers == 0 || options.workers > WORKERS_MAX {
        return Err(ListenError::WorkerCount { workers: options.workers });
    }
    Ok(())
}
