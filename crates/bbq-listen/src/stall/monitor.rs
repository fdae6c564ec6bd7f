//! Detects stalled workers, and lets the others take what waits for them.
//!
//! A worker of a `reuseport` group has a queue of its own. While the worker is stalled, nothing in that queue is served, and the
//! kernel goes on giving the worker its share. The monitor lets the other workers serve the socket of a stalled worker
//! (`dispatch`), steers new connections away from the worker (`steering`), and undoes both when the worker is back. With the other
//! distributions the monitor arms shared sockets elsewhere, and empties the inbox of the stalled worker.
//!
//! A worker that sleeps while something waits for it is stalled, too, if it cannot run (`stall::sleeper`).
//!
//! It also keeps tokio runtimes with several threads going (`stall::runtime`).
//!
//! While every worker sleeps, and none has been awake since the last check, the monitor sleeps, too. The first worker that
//! wakes up wakes it, and so does an arrival.
//!
//! Invariant: the monitor takes no connection and no datagram itself.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::diagnose::foreign_watch::{FOREIGN_LOOK, ForeignWatch};
use crate::dispatch::armed_in::ArmedIn;
use crate::dispatch::epoll_set::EpollSet;
use crate::dispatch::inboxes::redistribute;
use crate::sockets::group::Inner;
use crate::stall::alarm::Alarm;
use crate::stall::arrived::Arrived;
#[cfg(feature = "tokio")]
use crate::stall::runtime::{IDLE_LOOK, RuntimeWatches};
use crate::stall::watch::{STALL_THRESHOLD_MIN, Sight, Watch, help_after};
use crate::steering::load::{LOOK_EVERY, LoadWatch};
use crate::{Distribution, ForeignMember, Group, Heartbeat, Socket};

/// By default, a worker that runs for longer without coming back to its event loop counts as stalled. This is far longer than a
/// batch takes.
pub const STALL_THRESHOLD_DEFAULT: Duration = Duration::from_millis(10);

/// A change that the stall monitor reports.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::{Group, STALL_THRESHOLD_DEFAULT, StallEvent, StallMonitor};
///
/// let group = Group::at("127.0.0.1:7701")?.open()?;
/// let _monitor = StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, |event| match event {
///     StallEvent::Stalled { worker, .. } => eprintln!("worker {worker} does not come back"),
///     StallEvent::Recovered { worker, rescued, .. } => eprintln!("worker {worker} is back, {rescued} rescued"),
///     _ => {}
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallEvent {
    /// The worker is stalled and something waits for it; other workers take that.
    Stalled {
        /// Where the group listens.
        address: String,
        /// Which worker.
        worker: usize,
    },
    /// The worker came back.
    Recovered {
        /// Where the group listens.
        address: String,
        /// Which worker.
        worker: usize,
        /// Connections or datagrams that other workers took from its socket meanwhile.
        rescued: u64,
    },
}

/// Watches the workers of some groups, on a thread of its own. Ends when dropped.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::{Group, STALL_THRESHOLD_DEFAULT, StallMonitor};
///
/// let group = Group::at("127.0.0.1:0")?.workers(2).open()?;
/// let monitor = StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, |event| eprintln!("{event:?}"))?;
/// monitor.on_foreign_member(|member| eprintln!("another program is at {}", member.address));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StallMonitor {
    groups: Arc<Mutex<Vec<Watched>>>,
    #[cfg(feature = "tokio")]
    runtimes: Arc<Mutex<RuntimeWatches>>,
    foreign: Arc<Mutex<Option<ForeignWatch>>>,
    alarm: Arc<Alarm>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StallMonitor {
    /// Starts to watch the workers of `groups`. A worker counts as stalled after `threshold`, at least
    /// [`STALL_THRESHOLD_MIN`]. The monitor's thread calls `on_event` for each event.
    ///
    /// Workers that run tokio call [`install_heartbeat`](crate::install_heartbeat) on the builders of their runtimes; others
    /// [`Heartbeat::sleep`](crate::Heartbeat::sleep) and [`Heartbeat::wake`](crate::Heartbeat::wake) around the wait for events. A
    /// worker that does neither counts as running: it has to come back to its event loop in time even when nothing happens.
    ///
    /// # Errors
    /// If the thread cannot be started, or there is no descriptor for it.
    pub fn start<'a>(
        groups: impl IntoIterator<Item = &'a Group>,
        threshold: Duration,
        on_event: impl FnMut(StallEvent) + Send + 'static,
    ) -> io::Result<StallMonitor> {
        let alarm = Arc::new(Alarm::new()?);
        let over = Arc::new(AtomicBool::new(false));
        let round = Round {
            groups: Arc::default(),
            #[cfg(feature = "tokio")]
            runtimes: Arc::default(),
            foreign: Arc::default(),
            threshold: threshold.max(STALL_THRESHOLD_MIN),
            alarm: Arc::clone(&alarm),
            on_event,
        };
        let watched = Arc::clone(&round.groups);
        #[cfg(feature = "tokio")]
        let runtimes = Arc::clone(&round.runtimes);
        let foreign = Arc::clone(&round.foreign);
        let ended = Arc::clone(&over);
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(move || round.run(&ended))?;
        let monitor = StallMonitor {
            groups: watched,
            #[cfg(feature = "tokio")]
            runtimes,
            foreign,
            alarm,
            over,
            thread: Some(thread),
        };
        groups.into_iter().for_each(|group| monitor.add(group));
        Ok(monitor)
    }

    /// Watches one more group, until it is dropped.
    pub fn add(&self, group: &Group) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|watched| watched.group.strong_count() > 0);
        groups.push(Watched::new(group.inner()));
        group.inner().dispatch.set_alarm(&self.alarm);
        drop(groups);
        self.alarm.ring();
    }

    /// From now on calls `tell`, on the monitor's thread, for each socket of another program that is found at the address of a
    /// watched group, or at one that overlaps it: once, at most 2 s after it came. It replaces an earlier `tell`. Where netlink is
    /// blocked, as in some containers, nothing is told. [`Group::foreign_members`] finds the same at any time.
    pub fn on_foreign_member(&self, tell: impl FnMut(ForeignMember) + Send + 'static) {
        *self.foreign.lock().unwrap_or_else(PoisonError::into_inner) = Some(ForeignWatch::new(tell));
        self.alarm.ring();
    }

    /// Keeps the I/O and the timers of `runtime` going while tasks block some of its threads, until the runtime ends.
    ///
    /// A runtime in which an [`AsyncListener`](crate::AsyncListener) or [`AsyncDatagrams`](crate::AsyncDatagrams) of a watched group
    /// was created needs no call. This is for runtimes with other listeners, and for those that hold connections to other servers.
    ///
    /// In a tokio runtime with several threads one of them waits for I/O for all. If it then runs a task that blocks, nobody waits for
    /// I/O any more, although other threads are free (tokio#4730). The monitor notices that after 2 to 4 ms with the default threshold,
    /// and after up to 30 ms if all threads slept before. It then spawns a task that does nothing, which wakes one of them.
    /// It looks at an idle runtime 40 times per second. With one thread there is no free one: then this has no effect.
    #[cfg(feature = "tokio")]
    pub fn watch_runtime(&self, runtime: &tokio::runtime::Handle) {
        self.runtimes.lock().unwrap_or_else(PoisonError::into_inner).keep(runtime);
        self.alarm.ring();
    }
}

impl Drop for StallMonitor {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.alarm.end();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ended = thread.join();
        }
    }
}

/// A watched group. Its owner may drop it.
#[derive(Debug)]
struct Watched {
    group: Weak<Inner>,
    address: String,
    workers: Vec<WatchedWorker>,
    /// The sum of all workers' beats at the last check.
    beats: u64,
    load: LoadWatch,
}

#[derive(Debug, Clone, Copy, Default)]
struct WatchedWorker {
    watch: Watch,
    /// The socket's count of rescued connections or datagrams when the stall began.
    rescued: u64,
}

impl Watched {
    fn new(group: &Arc<Inner>) -> Self {
        Self {
            group: Arc::downgrade(group),
            address: group.address.to_string(),
            workers: Vec::new(),
            beats: 0,
            load: LoadWatch::default(),
        }
    }
}

struct Round<F> {
    groups: Arc<Mutex<Vec<Watched>>>,
    #[cfg(feature = "tokio")]
    runtimes: Arc<Mutex<RuntimeWatches>>,
    foreign: Arc<Mutex<Option<ForeignWatch>>>,
    threshold: Duration,
    alarm: Arc<Alarm>,
    on_event: F,
}

impl<F: FnMut(StallEvent)> Round<F> {
    fn run(mut self, over: &AtomicBool) {
        let mut is_regular = false;
        while !over.load(Ordering::SeqCst) {
            self.look_for_foreign();
            if self.check(is_regular) {
                std::thread::park_timeout(self.pause());
                is_regular = true;
                continue;
            }
            // Set the flag first, and then check for a worker that is awake. A worker that wakes up does both in the opposite
            // order.
            self.alarm.set_asleep(true);
            if !self.is_anybody_awake() && !over.load(Ordering::SeqCst) {
                self.alarm.wait(self.sleep_at_most());
            }
            self.alarm.set_asleep(false);
            // A worker may have woken it up, and then that one is awake of course.
            is_regular = false;
        }
        self.undo();
    }

    /// How long to wait between two checks.
    fn pause(&self) -> Duration {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let is_by_load =
            |watched: &Watched| watched.group.upgrade().is_some_and(|group| group.dispatch.balance().is_on());
        let pause = help_after(self.threshold).min(self.threshold / 2);
        if groups.iter().any(is_by_load) { pause.min(LOOK_EVERY) } else { pause }
    }

    /// How long it may sleep although nobody rings.
    fn sleep_at_most(&self) -> Option<Duration> {
        let until_poll = self.alarm.polls().then_some(self.threshold / 2);
        #[cfg(feature = "tokio")]
        let until_look =
            (!self.runtimes.lock().unwrap_or_else(PoisonError::into_inner).is_empty()).then_some(IDLE_LOOK);
        #[cfg(not(feature = "tokio"))]
        let until_look = None;
        let has_foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        [until_poll, until_look, has_foreign.then_some(FOREIGN_LOOK)].into_iter().flatten().min()
    }

    fn look_for_foreign(&self) {
        let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watch) = foreign.as_mut().filter(|watch| watch.is_due()) else { return };
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let groups: Vec<Arc<Inner>> = groups.iter().filter_map(|watched| watched.group.upgrade()).collect();
        watch.look(&groups);
    }

    /// At the end, undoes what was changed for stalled workers.
    fn undo(&self) {
        for watched in self.groups.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let Some(group) = watched.group.upgrade() else { continue };
            group.dispatch.forget(&self.alarm);
            for epoll_set in group.dispatch.epoll_sets() {
                if watched.workers.get(epoll_set.worker()).is_none_or(|worker| !worker.watch.is_stalled()) {
                    continue;
                }
                epoll_set.set_stalled(false);
                epoll_set.set_avoided(false);
                if let Some(socket) = own_socket(&group, &epoll_set) {
                    group.dispatch.unshare(&socket, &epoll_set);
                }
            }
            group.steer();
            LoadWatch::undo(&group);
        }
    }

    /// From now on an arrival rings the alarm. Returns whether a worker is awake.
    fn is_anybody_awake(&self) -> bool {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.iter().filter_map(|watched| watched.group.upgrade()).any(|group| {
            group.dispatch.sockets().iter().for_each(|socket| self.alarm.watch(socket.as_fd()));
            let epoll_sets = group.dispatch.epoll_sets();
            if matches!(group.dispatch.distribution(), Distribution::Handoff(_)) {
                // The acceptor thread is no worker: it fills an inbox a moment after the arrival.
                let inboxes = epoll_sets.iter().filter_map(|epoll_set| epoll_set.inbox());
                inboxes.for_each(|inbox| self.alarm.watch(inbox.event_fd()));
            }
            let mut served = epoll_sets.iter().filter(|epoll_set| epoll_set.is_served());
            served.any(|epoll_set| {
                epoll_set.heartbeat_of_worker().is_some_and(|heartbeat| !heartbeat.is_asleep())
            })
        })
    }

    /// Checks every worker once, at a regular time or because something happened. Returns whether to check again soon.
    fn check(&mut self, is_regular: bool) -> bool {
        let mut soon = false;
        for watched in self.groups.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            let Some(group) = watched.group.upgrade() else { continue };
            let epoll_sets = group.dispatch.epoll_sets();
            let sockets = group.dispatch.sockets();
            let arrived = Arrived::at(&sockets);
            let workers = epoll_sets.len().max(watched.workers.len());
            watched.workers.resize(workers, WatchedWorker::default());
            let mut beats = 0_u64;
            for epoll_set in &epoll_sets {
                if !epoll_set.is_served() {
                    redistribute(&epoll_sets, epoll_set);
                } else if let Some(heartbeat) = epoll_set.heartbeat_of_worker() {
                    beats = beats.wrapping_add(heartbeat.beats());
                    #[cfg(feature = "tokio")]
                    if let Some(runtime) = heartbeat.runtime() {
                        self.runtimes.lock().unwrap_or_else(PoisonError::into_inner).serves(runtime);
                    }
                    soon |= check_worker(
                        &group,
                        epoll_set,
                        &heartbeat,
                        &arrived,
                        self.threshold,
                        watched,
                        &mut self.on_event,
                    );
                }
            }
            // Workers that had something to do will soon have more: to sleep meanwhile would cost each of them a call to wake it up.
            soon |= std::mem::replace(&mut watched.beats, beats) != beats;
            for socket in &sockets {
                soon |= retry_unarmed(&group, socket);
            }
            soon |= watched.load.look(&group, is_regular);
            soon |= group.close_removed();
        }
        #[cfg(feature = "tokio")]
        {
            soon |= self.runtimes.lock().unwrap_or_else(PoisonError::into_inner).look();
        }
        soon
    }
}

/// Returns whether to check it again soon.
fn check_worker(
    group: &Inner,
    epoll_set: &Arc<EpollSet>,
    heartbeat: &Heartbeat,
    arrived: &Arrived<'_>,
    threshold: Duration,
    watched: &mut Watched,
    on_event: &mut impl FnMut(StallEvent),
) -> bool {
    let worker = epoll_set.worker();
    let own = own_socket(group, epoll_set);
    let rescued = own.as_ref().map_or(0, |socket| socket.counters().rescued());
    let waits = arrived.for_worker(group, epoll_set, own.as_deref());
    let is_asleep = heartbeat.is_asleep();
    let running_for = heartbeat.running_for();
    let sight = Sight { is_asleep, running_for, beats: heartbeat.beats(), waits, is_frozen: false };
    let known = &mut watched.workers[worker];
    let changes = known.watch.look(sight, threshold, || epoll_set.probe());
    if changes.begins {
        known.rescued = rescued;
        epoll_set.set_stalled(true);
        if let Some(socket) = &own {
            group.dispatch.share(socket);
        }
    }
    if changes.is_told {
        on_event(StallEvent::Stalled { address: watched.address.clone(), worker });
    }
    if changes.is_steered {
        epoll_set.set_avoided(true);
        group.steer();
    }
    if let Some(ended) = changes.ends {
        epoll_set.set_stalled(false);
        epoll_set.set_avoided(false);
        if let Some(socket) = &own {
            group.dispatch.unshare(socket, epoll_set);
        }
        if ended.was_steered {
            group.steer();
        }
        if ended.was_told {
            let rescued = rescued.saturating_sub(known.rescued);
            on_event(StallEvent::Recovered { address: watched.address.clone(), worker, rescued });
        }
    }
    let watch = &watched.workers[worker].watch;
    if watch.is_stalled() {
        for socket in group.dispatch.sockets() {
            if group.dispatch.armed_in(&socket) == ArmedIn::Worker(worker) {
                group.dispatch.pass(&socket, worker);
            }
        }
        let moved = redistribute(&group.dispatch.epoll_sets(), epoll_set);
        if let Some(socket) = group.dispatch.socket(0) {
            socket.counters().add_rescued(moved);
        }
    }
    !is_asleep || watch.is_suspected() || watch.is_stalled()
}

fn own_socket(group: &Inner, epoll_set: &EpollSet) -> Option<Arc<Socket>> {
    group.dispatch.socket(epoll_set.worker()).filter(|socket| socket.worker() == Some(epoll_set.worker()))
}

/// Arms a socket again that could not be armed anywhere. Returns whether there was one to arm.
fn retry_unarmed(group: &Inner, socket: &Socket) -> bool {
    let is_served = group.dispatch.epoll_sets().iter().any(|epoll_set| epoll_set.is_served());
    let has_acceptor = matches!(group.dispatch.distribution(), Distribution::Handoff(_));
    if has_acceptor || group.dispatch.armed_in(socket) != ArmedIn::Nowhere || !is_served {
        return false;
    }
    group.dispatch.retry(socket);
    true
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;
    use crate::dispatch::inboxes::assign;
    use crate::io::accepted::{Accepted, accept_from};
    use crate::{Acceptor, GroupOptions, HandoffRule};

    /// Far longer than the monitor takes, on any machine.
    const LOST: Duration = Duration::from_secs(20);

    /// A connection, accepted from a group of its own.
    fn connection() -> (TcpStream, Accepted) {
        let group = Group::at("127.0.0.1:0").unwrap().workers(1).open().unwrap();
        let client = TcpStream::connect(group.local_address().socket_address().unwrap()).unwrap();
        let mut accepted = None;
        while accepted.is_none() {
            accept_from(&group.sockets()[0], 1, &mut |one| accepted = Some(one)).unwrap();
        }
        (client, accepted.unwrap())
    }

    /// The acceptor thread fills the inbox when the monitor has already looked what arrived, and has gone to sleep.
    #[test]
    fn a_sleeping_monitor_wakes_up_for_a_connection_in_an_inbox() {
        let address = "tcp://127.0.0.1:0".parse().unwrap();
        let distribution = Distribution::Handoff(HandoffRule::RoundRobin);
        let group = GroupOptions::new(address, 1).distribution(distribution).open().unwrap();
        let (sent, events) = mpsc::sync_channel(2);
        let monitor =
            StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, move |event| sent.send(event).unwrap())
                .unwrap();
        std::thread::scope(|threads| {
            let (asleep, is_asleep) = mpsc::sync_channel(2);
            let (thaw, thawed) = mpsc::sync_channel::<()>(1);
            let listener = group.worker_listener(0).unwrap();
            threads.spawn(move || {
                let _acceptor = Acceptor::new(listener).unwrap();
                Heartbeat::of_this_thread().sleep();
                asleep.send(()).unwrap();
                // Until the sender is dropped.
                let _thawed = thawed.recv();
            });
            is_asleep.recv().unwrap();
            let start = Instant::now();
            while !monitor.alarm.is_asleep() {
                assert!(start.elapsed() < LOST);
                std::thread::yield_now();
            }
            let (_client, accepted) = connection();
            assign(&group.inner().dispatch.epoll_sets(), HandoffRule::RoundRobin, 0, accepted).unwrap();
            let event = events.recv_timeout(LOST);
            drop(thaw);
            assert!(matches!(event, Ok(StallEvent::Stalled { worker: 0, .. })), "{event:?}");
        });
    }

    /// A server that turns its monitor off at a reload keeps the group.
    #[test]
    fn a_monitor_that_has_ended_leaves_no_descriptor_in_its_groups() {
        let group = Group::at("127.0.0.1:0").unwrap().workers(2).open().unwrap();
        let monitor = StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, drop).unwrap();
        let alarm = Arc::downgrade(&monitor.alarm);
        drop(monitor);
        assert!(alarm.upgrade().is_none());
        drop(group);
    }
}
