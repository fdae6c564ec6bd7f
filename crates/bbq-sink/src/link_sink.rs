//! Makes a sink out of a link: a task on the sink's thread that passes on groups over one connection after the other.
//!
//! ```text
//! driver -> submit -> groups -> Link (a task) -> settled -> settle -> driver
//! ```
//!
//! A link that fails is started again when the driver says so. A destination that hangs holds up only its own sink.
//!
//! Invariant: no call but `wait` waits for the destination.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bbq_spool::{Group, LanePlace, Progress};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{JoinError, JoinHandle};

use super::delivery::PendingGroup;
use super::interface::{GATHERS_FOR, Now, Problem, Room, Settled, Sink};
use super::last_group::Doubts;

/// What makes the links of a sink, and knows what they share.
pub trait Links: Send + 'static {
    /// Most groups that are on their way: memory is bounded by this many groups.
    const GROUPS_MAX: usize;
    /// No further group is submitted while those on their way have so many bytes.
    const BYTES_MAX: usize;
    /// Whether there is a connection even while nothing is to be sent. Its end is then a problem.
    const IS_EAGER: bool;
    /// See [`Sink::gathers_for`].
    const GATHERS_FOR: Duration = GATHERS_FOR;

    /// See [`Links::set_aside`]. More groups leave no room to others.
    const SET_ASIDE_MAX: SetAside = SetAside { groups: 0, bytes: 0 };

    /// What each link is.
    type Link: Link;

    /// Makes a link that takes `groups`, and returns each as `settled`.
    fn link(&self, groups: Receiver<PendingGroup>, settled: Sender<Settled>) -> Self::Link;

    /// What the cursor remembers; see [`Sink::state`].
    fn state(&self) -> String;

    /// See [`Sink::keep`].
    fn keep(&self) -> Duration {
        Duration::ZERO
    }

    /// The lanes of which it is not known yet that the destination has the messages of this spool, as it says: their groups are held back,
    /// and nobody else has them.
    fn doubts(&self) -> Option<&Doubts> {
        None
    }

    /// Groups on their way that wait for something of their own, so that others go on meanwhile.
    fn set_aside(&self) -> SetAside {
        SetAside::default()
    }

    /// See [`Sink::standing_problem`].
    fn standing_problem(&self) -> Option<String> {
        None
    }

    /// What to tell an operator if the destination has other messages than this spool.
    fn conflict(&self) -> Option<String> {
        None
    }

    /// The driver has this group as settled. Before it writes [`Links::state`], it keeps the messages that were rejected.
    fn handed_over(&self, until: LanePlace) {
        let _unused = until;
    }

    /// See [`Sink::committed`].
    fn committed(&self, places: &[LanePlace]) {
        let _unused = places;
    }

    /// The groups that were handed over since the last commit are submitted again.
    fn rolled_back(&self) {}
}

/// How much of what is on its way is set aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAside {
    /// Groups.
    pub groups: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// A task that passes on groups.
pub trait Link: Send + Sized + 'static {
    /// Passes on groups until something fails. Returns what is needed to go on, and a problem whose text tells the operator what to
    /// do.
    fn run(self) -> impl Future<Output = (Self, Problem)> + Send;
}

/// Most groups of a lane that are held back: at least those of 17 minutes, as a lane has a group in a millisecond at most, and the cursor
/// is behind by what a sink keeps. They take some 200 bytes each. If there are more, the destination is believed.
const HELD_GROUPS_MAX: usize = 1024 * 1024;
/// Groups that the destination has are in the spool when the sink begins, and so they come at once.
const DOUBT_PATIENCE: Duration = Duration::from_secs(10);

type Finished<L> = Result<(L, Problem), JoinError>;

/// See the module.
pub struct LinkSink<L: Links> {
    /// Dropped first: a link that waits for groups sees that none will come.
    groups: Sender<PendingGroup>,
    links: L,
    settled: Receiver<Settled>,
    /// Groups that were settled while this sink waited.
    ready: Vec<Settled>,
    /// Groups that the destination is said to have, while it is in doubt whether it has others.
    held: BTreeMap<u32, Vec<Settled>>,
    /// When the last of them came.
    held_at: Duration,
    /// When this sink was last looked at.
    now: Duration,
    /// The places behind the groups on their way, and their bytes.
    outstanding: VecDeque<(LanePlace, usize)>,
    /// The sum of these bytes.
    outstanding_bytes: usize,
    /// How many messages were settled.
    progress: Arc<AtomicU64>,
    /// The link while it does not run.
    waiting: Option<L::Link>,
    running: Option<JoinHandle<(L::Link, Problem)>>,
    /// The end of the link's task, if the task ended while this sink waited.
    finished: Option<Finished<L::Link>>,
    runtime: Runtime,
}

impl<L: Links> LinkSink<L> {
    /// No link is opened yet.
    pub fn new(links: L) -> io::Result<LinkSink<L>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (link, groups, settled) = new_link(&links);
        Ok(LinkSink {
            groups,
            links,
            settled,
            ready: Vec::new(),
            held: BTreeMap::new(),
            held_at: Duration::ZERO,
            now: Duration::ZERO,
            outstanding: VecDeque::new(),
            outstanding_bytes: 0,
            progress: Arc::default(),
            waiting: Some(link),
            running: None,
            finished: None,
            runtime,
        })
    }

    fn room(&self) -> Room {
        let SetAside { groups, bytes } = self.links.set_aside();
        let groups = self.outstanding.len().saturating_sub(groups.min(L::SET_ASIDE_MAX.groups));
        let bytes = self.outstanding_bytes.saturating_sub(bytes.min(L::SET_ASIDE_MAX.bytes));
        let is_full = groups >= L::GROUPS_MAX || bytes >= L::BYTES_MAX;
        if is_full { Room::Full } else { Room::Free }
    }

    /// Hands over what is settled, but for groups of lanes that are in doubt.
    fn hand_over(&mut self, now: Now, settled: &mut Vec<Settled>) {
        let links = &self.links;
        let is_open = |lane: u32| links.doubts().is_some_and(|doubts| doubts.is_open(lane));
        let mut give = |group: Settled| {
            links.handed_over(group.until);
            settled.push(group);
        };
        // Those of a lane stay in their order.
        self.held.retain(|lane, groups| {
            let stays = is_open(*lane) && groups.len() < HELD_GROUPS_MAX;
            if !stays {
                groups.drain(..).for_each(&mut give);
            }
            stays
        });
        for group in self.ready.drain(..) {
            if is_open(group.until.lane) {
                self.held.entry(group.until.lane).or_default().push(group);
                self.held_at = now.monotonic;
            } else {
                give(group);
            }
        }
        self.now = now.monotonic;
    }

    /// Handles the end of the link's task.
    fn ended(&mut self, finished: Finished<L::Link>) -> Result<Room, Problem> {
        match finished {
            Ok((link, problem)) => {
                self.waiting = Some(link);
                if self.outstanding.is_empty() && !L::IS_EAGER { Ok(self.room()) } else { Err(problem) }
            }
            // The link is gone with its groups: they are submitted again after `roll_back`.
            Err(panic) => Err(Problem::Failed(io::Error::other(panic))),
        }
    }
}

fn new_link<L: Links>(links: &L) -> (L::Link, Sender<PendingGroup>, Receiver<Settled>) {
    let groups_max = L::GROUPS_MAX + L::SET_ASIDE_MAX.groups;
    let (groups, groups_of_link) = channel(groups_max);
    let (settled_of_link, settled) = channel(groups_max);
    (links.link(groups_of_link, settled_of_link), groups, settled)
}

impl<L: Links> Sink for LinkSink<L> {
    fn submit(&mut self, group: Group, begun: u64, _now: Now) -> Result<Room, Problem> {
        self.outstanding.push_back((group.until(), group.bytes()));
        self.outstanding_bytes += group.bytes();
        // The channel has room, because there is room for the group. The link exists until this sink is rolled back.
        let pending = PendingGroup::new(group, begun, Arc::clone(&self.progress));
        self.groups.try_send(pending).map_err(|_| Problem::Failed(io::Error::other("the link has ended")))?;
        Ok(self.room())
    }

    fn settle(&mut self, now: Now, settled: &mut Vec<Settled>) -> Result<Room, Problem> {
        let runtime = &self.runtime;
        if let Some(link) = self.waiting.take_if(|_| L::IS_EAGER || !self.outstanding.is_empty()) {
            self.running = Some(runtime.spawn(link.run()));
        }
        // The link proceeds as far as it can without waiting.
        runtime.block_on(tokio::task::yield_now());
        while let Ok(ready) = self.settled.try_recv() {
            self.ready.push(ready);
        }
        for ready in &self.ready {
            if let Some(index) = self.outstanding.iter().position(|(until, _)| *until == ready.until) {
                let bytes = self.outstanding.remove(index).map_or(0, |(_, bytes)| bytes);
                self.outstanding_bytes -= bytes;
            }
        }
        self.hand_over(now, settled);
        if self.finished.is_none()
            && let Some(running) = self.running.take_if(|running| running.is_finished())
        {
            self.finished = Some(self.runtime.block_on(running));
        }
        match self.finished.take() {
            Some(finished) => self.ended(finished),
            None => Ok(self.room()),
        }
    }

    fn gathers_for(&self) -> Duration {
        L::GATHERS_FOR
    }

    fn groups_max(&self) -> usize {
        let has_gap = !self.held.is_empty() || self.links.set_aside().groups > 0;
        if has_gap { L::GROUPS_MAX + HELD_GROUPS_MAX } else { L::GROUPS_MAX }
    }

    fn standing_problem(&mut self) -> Option<String> {
        let is_stuck = !self.held.is_empty() && self.now.saturating_sub(self.held_at) >= DOUBT_PATIENCE;
        is_stuck.then(|| self.links.conflict()).flatten().or_else(|| self.links.standing_problem())
    }

    fn wait(&mut self, progress: &Progress, seen: u64, patience: Duration) {
        let Some(running) = &mut self.running else { return progress.wait(seen, patience) };
        let (settled, finished, ready) = (&mut self.settled, &mut self.finished, &mut self.ready);
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                Some(settled) = settled.recv() => ready.push(settled),
                ended = running => *finished = Some(ended),
                () = progress.changed(seen) => {}
                () = tokio::time::sleep(patience) => {}
            }
        });
        if self.finished.is_some() {
            self.running = None;
        }
    }

    fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    fn state(&self) -> String {
        self.links.state()
    }

    fn keep(&self) -> Duration {
        self.links.keep()
    }

    fn committed(&mut self, places: &[LanePlace]) {
        self.links.committed(places);
    }

    fn may_give_up(&self) -> bool {
        true
    }

    fn roll_back(&mut self) -> io::Result<()> {
        if let Some(running) = self.running.take() {
            running.abort();
        }
        self.links.rolled_back();
        let (link, groups, settled) = new_link(&self.links);
        (self.waiting, self.groups, self.settled) = (Some(link), groups, settled);
        self.ready.clear();
        self.held.clear();
        self.finished = None;
        self.outstanding.clear();
        self.outstanding_bytes = 0;
        Ok(())
    }
}
