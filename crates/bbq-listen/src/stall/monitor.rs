//! Detects stalled workers, and lets the others take what waits for them.
//!
//! A worker of a `reuseport` group has a queue of its own. While the worker is stalled, nothing in that queue is served, and the
//! kernel goes on giving the worker its share. The monitor lets the other workers serve the socket of a stalled worker
//! (`dispatch`), steers new connections away from the worker (`steering`), and undoes both when the worker is back. With the other
//! distributions the monitor arms shared sockets elsewhere, and empties the inbox of the stalled worker.
//!
//! A worker that sleeps while something waits for it is stalled, too, if it cannot run (`stall::sleeper`).
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
use std::time::{Duration, Instant};

use crate::dispatch::armed_in::ArmedIn;
use crate::dispatch::epoll_set::EpollSet;
use crate::dispatch::inboxes::redistribute;
use crate::sockets::group::Inner;
use crate::stall::alarm::Alarm;
use crate::stall::arrived::Arrived;
use crate::stall::sleeper::Sleeper;
use crate::steering::load::{LOOK_EVERY, LoadWatch};
use crate::{Distribution, Group, Heartbeat, Socket};

/// By default, a worker that runs for longer without coming back to its event loop counts as stalled. This is far longer than a
/// batch takes.
pub const STALL_THRESHOLD_DEFAULT: Duration = Duration::from_millis(10);
/// The shortest threshold. With a shorter one, a worker that was not scheduled for a moment would count as stalled.
pub const STALL_THRESHOLD_MIN: Duration = Duration::from_millis(2);

/// Others help a worker that runs after this part of the threshold, before it is reported. With the default, what waits in the queue
/// of a blocked worker is taken after 2 ms, and the next check after that: no client waits for 5 ms.
const HELP_PART: u32 = 5;
/// Shorter than this, help would come to workers that are only not scheduled for a moment.
const HELP_AFTER_MIN: Duration = STALL_THRESHOLD_MIN;

/// After this many thresholds new connections are steered away from a stalled worker. Before that the others take them anyway,
/// and a worker that a busy system does not schedule for a while keeps its share.
const STEER_AFTER: u32 = 50;

/// A change that the stall monitor reports.
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
#[derive(Debug)]
pub struct StallMonitor {
    groups: Arc<Mutex<Vec<Watched>>>,
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
            threshold: threshold.max(STALL_THRESHOLD_MIN),
            alarm: Arc::clone(&alarm),
            on_event,
        };
        let watched = Arc::clone(&round.groups);
        let ended = Arc::clone(&over);
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(move || round.run(&ended))?;
        let monitor = StallMonitor { groups: watched, alarm, over, thread: Some(thread) };
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
    /// `None` for workers that are not stalled.
    stalled: Vec<Option<Stall>>,
    sleepers: Vec<Sleeper>,
    /// The sum of all workers' beats at the last check.
    beats: u64,
    load: LoadWatch,
}

#[derive(Debug, Clone, Copy)]
struct Stall {
    /// The socket's count of rescued connections or datagrams when the stall began.
    rescued: u64,
    /// New connections are steered away.
    steered: bool,
    since: Instant,
    /// The worker's beats, if it said that it sleeps: it stays stalled until it beats.
    beats: Option<u64>,
    /// It was reported.
    is_told: bool,
}

/// After what time of running others help a worker.
fn help_after(threshold: Duration) -> Duration {
    (threshold / HELP_PART).max(HELP_AFTER_MIN)
}

impl Watched {
    fn new(group: &Arc<Inner>) -> Self {
        Self {
            group: Arc::downgrade(group),
            address: group.address.to_string(),
            stalled: Vec::new(),
            sleepers: Vec::new(),
            beats: 0,
            load: LoadWatch::default(),
        }
    }
}

struct Round<F> {
    groups: Arc<Mutex<Vec<Watched>>>,
    threshold: Duration,
    alarm: Arc<Alarm>,
    on_event: F,
}

impl<F: FnMut(StallEvent)> Round<F> {
    fn run(mut self, over: &AtomicBool) {
        let mut is_regular = false;
        while !over.load(Ordering::SeqCst) {
            if self.check(is_regular) {
                std::thread::park_timeout(self.pause());
                is_regular = true;
                continue;
            }
            // Set the flag first, and then check for a worker that is awake. A worker that wakes up does both in the opposite
            // order.
            self.alarm.set_asleep(true);
            if !self.is_anybody_awake() && !over.load(Ordering::SeqCst) {
                self.alarm.wait(self.alarm.polls().then_some(self.threshold / 2));
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

    /// At the end, undoes what was changed for stalled workers.
    fn undo(&self) {
        for watched in self.groups.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let Some(group) = watched.group.upgrade() else { continue };
            group.dispatch.forget(&self.alarm);
            for epoll_set in group.dispatch.epoll_sets() {
                if watched.stalled.get(epoll_set.worker()).is_none_or(Option::is_none) {
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
            watched.stalled.resize(epoll_sets.len().max(watched.stalled.len()), None);
            watched.sleepers.resize(watched.stalled.len(), Sleeper::default());
            let mut beats = 0_u64;
            for epoll_set in &epoll_sets {
                if !epoll_set.is_served() {
                    redistribute(&epoll_sets, epoll_set);
                } else if let Some(heartbeat) = epoll_set.heartbeat_of_worker() {
                    beats = beats.wrapping_add(heartbeat.beats());
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
    let sleeper = &mut watched.sleepers[worker];
    // Read before the beats: a thread counts a beat before it is seen awake.
    let is_asleep = heartbeat.is_asleep();
    let running_for = heartbeat.running_for();
    let (overdue, beats) = match watched.stalled[worker] {
        Some(Stall { beats: Some(beats), .. }) => (heartbeat.beats() == beats, None),
        None if is_asleep && waits => {
            let beats = heartbeat.beats();
            (sleeper.is_overdue(heartbeat, epoll_set, threshold), Some(beats))
        }
        _ => {
            sleeper.forget();
            (running_for >= help_after(threshold), None)
        }
    };
    let soon = !is_asleep || sleeper.is_suspected();
    if watched.stalled[worker].is_none() && overdue && waits {
        let since = Instant::now();
        watched.stalled[worker] = Some(Stall { rescued, steered: false, since, beats, is_told: false });
        epoll_set.set_stalled(true);
        if let Some(socket) = &own {
            group.dispatch.share(socket);
        }
    }
    match watched.stalled[worker] {
        Some(stall) if overdue && !stall.is_told && (stall.beats.is_some() || running_for >= threshold) => {
            watched.stalled[worker] = Some(Stall { is_told: true, ..stall });
            on_event(StallEvent::Stalled { address: watched.address.clone(), worker });
        }
        Some(stall) if overdue && !stall.steered && stall.since.elapsed() >= threshold * STEER_AFTER => {
            watched.stalled[worker] = Some(Stall { steered: true, ..stall });
            epoll_set.set_avoided(true);
            group.steer();
        }
        Some(stall) if !overdue => {
            watched.stalled[worker] = None;
            watched.sleepers[worker].forget();
            epoll_set.set_stalled(false);
            epoll_set.set_avoided(false);
            if let Some(socket) = &own {
                group.dispatch.unshare(socket, epoll_set);
            }
            if stall.steered {
                group.steer();
            }
            if stall.is_told {
                on_event(StallEvent::Recovered {
                    address: watched.address.clone(),
                    worker,
                    rescued: rescued.saturating_sub(stall.rescued),
                });
            }
        }
        _ => {}
    }
    if watched.stalled[worker].is_some() {
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
    soon || watched.stalled[worker].is_some()
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

    use super::*;
    use crate::dispatch::inboxes::assign;
    use crate::io::accepted::{Accepted, accept_from};
    use crate::{Acceptor, GroupOptions, HandoffRule};

    /// Far longer than the monitor takes, on any machine.
    const LOST: Duration = Duration::from_secs(20);

    /// A connection, accepted from a group of its own.
    fn connection() -> (TcpStream, Accepted) {
        let group = Group::bind("127.0.0.1:0").unwrap().workers(1).open().unwrap();
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
        let group = Group::bind("127.0.0.1:0").unwrap().workers(2).open().unwrap();
        let monitor = StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, drop).unwrap();
        let alarm = Arc::downgrade(&monitor.alarm);
        drop(monitor);
        assert!(alarm.upgrade().is_none());
        drop(group);
    }
}
