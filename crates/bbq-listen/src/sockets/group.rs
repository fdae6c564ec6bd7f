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
use crate::dispatch::benefits::Balance;
use crate::dispatch::epoll_set::EpollSet;
use crate::dispatch::handoff::Handoff;
use crate::dispatch::inboxes::redistribute;
use crate::limits::{WORKERS_MAX, coarse_ms, worker_count};
use crate::sockets::activation::activated;
use crate::sockets::adopt::adopt;
use crate::sockets::open::{Opened, Steps, open};
use crate::sockets::options::{GroupOptions, UnixOwner};
use crate::sockets::unix_path::OwnedPath;
use crate::steering::applied::AppliedSteering;
use crate::steering::conversations::Conversations;
use crate::steering::key::SenderHash;
use crate::{Address, Distribution, ListenError, Socket, Steering, SteeringKey, WorkerListener};

/// How long the socket of a removed worker stays open at least, so that handshakes can complete. A connection whose handshake
/// completes on a closed socket is reset (unless `net.ipv4.tcp_migrate_req` is set).
const REMOVED_LINGER: Duration = Duration::from_secs(3);

/// All the sockets that listen on one address, opened once by their owner.
///
/// Keep it while any worker serves. When it is dropped, the file of a unix socket is removed; the sockets are closed with the last
/// worker listener. The kernel resets connections that are queued on a socket when it is closed.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::Group;
///
/// let group = Group::at("127.0.0.1:0")?.workers(2).open()?;
/// println!("{} by {}", group.local_address(), group.distribution());
/// // One for each worker, which serves it on a thread of its own.
/// assert_eq!(group.worker_listeners().len(), 2);
/// group.resize(3)?;
/// assert_eq!(group.workers(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Group {
    // Dropped first: while a socket is open, no other file gets its inode number.
    path: Option<OwnedPath>,
    handoff: Mutex<Option<Handoff>>,
    pub(super) inner: Arc<Inner>,
    pub(crate) options: GroupOptions,
    key: SteeringKey,
    fallback: Option<String>,
    pub(crate) receive_buffer_bytes: Option<u32>,
}

/// The part of a group that worker listeners and the stall monitor share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) address: Address,
    pub(crate) dispatch: Arc<Dispatch>,
    steered: Mutex<AppliedSteering>,
    removed: Mutex<Removed>,
    /// Told of each resize.
    #[cfg(feature = "tokio")]
    pub(crate) resized: tokio::sync::watch::Sender<()>,
}

/// Removed workers whose sockets may still be open.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    /// When the last one was removed.
    pub(super) since: Option<Instant>,
    pub(super) epoll_sets: Vec<Arc<EpollSet>>,
}

impl Group {
    /// Options for a group at `address`: `HOST:PORT` of tcp, or `TRANSPORT://ADDRESS`. One worker for each processor that the
    /// process may use, unless [`workers`](GroupOptions::workers) says otherwise. [`GroupOptions::open`] opens the group.
    ///
    /// # Errors
    /// If `address` is no address, or its host cannot be resolved.
    pub fn at(address: &str) -> Result<GroupOptions, ListenError> {
        let address =
            if address.contains("://") { address.parse()? } else { Address::parse("tcp", address)? };
        Ok(GroupOptions::new(address, worker_count()))
    }

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
    /// Each must have the transport and address of `options` (with port 0 any port, the same for all), and listen. For 0.0.0.0 a
    /// socket of `[::]` fits that takes IPv4, too, as systemd opens it; it shows IPv4 clients as `::ffff:1.2.3.4`. One socket is
    /// shared by all workers, whatever the distribution: [`fallback`](Self::fallback) and [`diagnose`](Self::diagnose) say so, and with the
    /// feature `tracing` a warning. Several must be one for each worker. The hook of [`GroupOptions::before_bind`] is not called.
    ///
    /// The descriptors become close-on-exec and non-blocking, and backlog and receive
    /// buffer are set as in `options`.
    ///
    /// The file of a unix socket is not removed when the group closes: see [`set_owns_file`](Self::set_owns_file).
    ///
    /// To hand over the sockets of a group, pass the descriptors of [`sockets`](Self::sockets) in their order, and the
    /// [`steering_key`](Self::steering_key), which goes into the options.
    pub fn adopt(options: &GroupOptions, sockets: Vec<OwnedFd>) -> Result<Self, ListenError> {
        check_workers(options)?;
        let group = Self::of(options, adopt(options, sockets)?)?;
        #[cfg(feature = "tracing")]
        if let Some(reason) = group.unwanted_fallback() {
            let (address, distribution) = (group.local_address(), group.distribution());
            tracing::warn!(%address, %distribution, configured = %group.configured(), reason, "adopted sockets are spread in another way than they were asked to be");
        }
        Ok(group)
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
        let with_inbox = opened.distribution.has_inboxes() || (own && options.steering == Steering::Load);
        let epoll_sets = (0..options.workers).map(|worker| EpollSet::new(worker, with_inbox).map(Arc::new));
        let epoll_sets: Vec<_> = epoll_sets
            .collect::<Result<_, _>>()
            .map_err(|error| step.failed("epoll_create", error.into()))?;
        let key = options.steering_key.clone().map_or_else(SteeringKey::random, Ok);
        let key = key.map_err(|error| step.failed("getrandom", error))?;
        let hash = SenderHash::new(&key);
        let balance = Balance::default();
        let steered = AppliedSteering::new(options, hash.clone(), opened.distribution, &sockets, &balance)?;
        let layout = steered.layout().filter(|_| matches!(opened.address, Address::Udp(_)));
        let conversations =
            layout.map(|layout| Conversations::new(hash, layout, options.workers, coarse_ms()));
        if conversations.is_some() {
            // Now, so that a group that grows needs descriptors for its new workers alone, and has no more than one of that size.
            let opened = epoll_sets.iter().try_for_each(|epoll_set| epoll_set.open_handed());
            opened.map_err(|error| step.failed("eventfd", error.into()))?;
        }
        balance.set_on(steered.is_by_load());
        let dispatch =
            Arc::new(Dispatch::new(opened.distribution, sockets, epoll_sets, conversations, balance));
        let handoff = start_handoff(&dispatch, &opened.address)?;
        Ok(Self {
            path: opened.path,
            handoff: Mutex::new(handoff),
            inner: Arc::new(Inner {
                address: opened.address.clone(),
                dispatch,
                steered: Mutex::new(steered),
                removed: Mutex::default(),
                #[cfg(feature = "tokio")]
                resized: tokio::sync::watch::Sender::default(),
            }),
            options: GroupOptions { address: opened.address, ..options.clone() },
            key,
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

    /// Changes permissions and owner of the file of a unix socket. Connections that are open stay open. A file that another
    /// process has put in its place is not changed, nor is anything of other transports.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn set_file_options(&self, mode: Option<u32>, owner: UnixOwner) -> Result<(), ListenError> {
        let Some(path) = self.path.as_ref().and_then(OwnedPath::present) else { return Ok(()) };
        Steps { address: &self.inner.address }.set_file_options(path, mode, owner)
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

    /// The key of the hash of senders. A program that hands over the sockets hands over the key, too, so that senders of datagrams
    /// keep their workers.
    pub fn steering_key(&self) -> &SteeringKey {
        &self.key
    }

    /// Changes the steering. Queued and open connections stay where they are; senders of datagrams may change their worker. If the
    /// steering is in force already, nothing changes.
    ///
    /// # Errors
    /// If the group cannot be steered that way, or the system refuses. Then the steering stays as it was.
    pub fn set_steering(&self, steering: &Steering) -> Result<(), ListenError> {
        // The number of workers stays the same meanwhile.
        let _no_resize = self.inner.removed();
        if self.inner.steered().is_in_force(steering) {
            return Ok(());
        }
        let options =
            GroupOptions { steering: steering.clone(), workers: self.workers(), ..self.options.clone() };
        let dispatch = &self.inner.dispatch;
        if *steering == Steering::Load {
            let step = Steps { address: &self.inner.address };
            for epoll_set in dispatch.epoll_sets() {
                epoll_set.ensure_inbox().map_err(|error| step.failed("eventfd", error.into()))?;
            }
        }
        let new = AppliedSteering::new(
            &options,
            SenderHash::new(&self.key),
            self.distribution(),
            &dispatch.sockets(),
            dispatch.balance(),
        )?;
        dispatch.balance().set_on(new.is_by_load());
        if let (Some(conversations), Some(layout)) = (dispatch.conversations(), new.layout()) {
            conversations.replace(layout);
        }
        *self.inner.steered() = new;
        self.inner.steer();
        Ok(())
    }

    /// The share of new connections that each worker gets with steering by load, in 1,024ths; `None` with any other steering.
    pub fn load_shares(&self) -> Option<Vec<u16>> {
        self.inner.load_shares()
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

    /// Connections of each worker that are open: those that `AsyncListener::accept` returned. Of those accepted in
    /// batches, only those that were handed over count, with `handoff` or steering by load.
    pub fn open_connections(&self) -> Vec<usize> {
        self.inner.dispatch.epoll_sets().iter().map(|epoll_set| epoll_set.open()).collect()
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
    /// With `handoff` the acceptor thread ends; the workers have to take what is in their inboxes. A worker for datagrams has to
    /// take what other workers handed on to it ([`Receiver::finish`](crate::Receiver::finish)).
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
    pub(super) fn steered(&self) -> MutexGuard<'_, AppliedSteering> {
        self.steered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Steers connections away from workers that cannot take them, and back.
    pub(crate) fn steer(&self) {
        self.steered().apply(&self.dispatch.sockets(), &self.dispatch.epoll_sets());
    }

    pub(crate) fn load_shares(&self) -> Option<Vec<u16>> {
        let steered = self.steered();
        steered.is_by_load().then(|| steered.shares())
    }

    /// Whether shares may change as often as somebody looks.
    pub(crate) fn are_shares_memory(&self) -> bool {
        self.steered().is_pinned()
    }

    /// Steers connections in these proportions, one weight for each worker.
    pub(crate) fn steer_by_load(&self, weights: &[u16]) {
        let mut steered = self.steered();
        steered.set_weights(weights);
        steered.apply(&self.dispatch.sockets(), &self.dispatch.epoll_sets());
    }

    /// While this is held, no resize runs.
    pub(crate) fn removed(&self) -> MutexGuard<'_, Removed> {
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

impl GroupOptions {
    /// Opens the group: [`Group::open`].
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub fn open(&self) -> Result<Group, ListenError> {
        Group::open(self)
    }

    /// Adopts the sockets that systemd or the process before has passed to this one ([`activated`]), or opens the group if there are
    /// none. For a server with one group: all that were passed have to fit. Call it before anything else is opened, as descriptors are
    /// passed by number.
    ///
    /// # Errors
    /// If the sockets do not fit, or the address cannot be listened on.
    ///
    /// [`activated`]: crate::activated
    pub fn activated_or_open(&self) -> Result<Group, ListenError> {
        let unfit = |error: std::io::Error| ListenError::Unfit {
            address: self.address.clone(),
            problem: format!("LISTEN_FDS counts a descriptor that is not open ({error})"),
        };
        let passed = activated().map_err(unfit)?;
        if passed.is_empty() { self.open() } else { self.adopt(passed.into_iter().map(|one| one.descriptor)) }
    }

    /// Makes the group of sockets that are open: [`Group::adopt`]. For listeners of std, and for what [`activated`] returns.
    ///
    /// [`activated`]: crate::activated
    ///
    /// # Errors
    /// If they do not fit the options.
    pub fn adopt<Owned: Into<OwnedFd>>(
        &self,
        sockets: impl IntoIterator<Item = Owned>,
    ) -> Result<Group, ListenError> {
        Group::adopt(self, sockets.into_iter().map(Into::into).collect())
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

pub(super) fn check_workers(options: &GroupOptions) -> Result<(), ListenError> {
    if options.workers == 0 || options.workers > WORKERS_MAX {
        return Err(ListenError::WorkerCount { workers: options.workers });
    }
    Ok(())
}
