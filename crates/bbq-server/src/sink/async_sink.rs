//! Makes a sink out of a destination with an `async fn`, on a runtime of the sink's thread.
//!
//! Messages that a destination could not take are given to it again; the driver decides when. A destination that hangs holds up
//! only its own sink: when the server is to hold or to stop, unconfirmed messages are given up, and are sent again later. The
//! next commit remembers how many messages of a group are confirmed.
//!
//! Invariant: no call but `wait` waits for the destination.
//! Invariant: nothing runs on tokio's blocking threads. tokio panics when the system cannot start a thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bbq_spool::{Group, LanePlace, Progress};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinError, JoinSet};

use super::delivery::{Delivery, PendingGroup};
use super::interface::{Now, Problem, Room, Settled, Sink};
use super::tasks::wait_for_task;

/// Where groups are delivered to.
pub(super) trait Destination: Send + Sync + 'static {
    /// Delivers the rest of a group, or rejects it. After an error the function is called again for what is left then. The text
    /// of the error tells the operator what to do.
    fn deliver(&self, delivery: &mut Delivery) -> impl Future<Output = io::Result<()>> + Send;

    /// What the cursor remembers; see [`Sink::state`].
    fn state(&self) -> String;
}

type Finished = (Delivery, io::Result<()>);

/// See the module.
pub(super) struct AsyncSink<D> {
    destination: Arc<D>,
    /// Every group that is submitted and not settled.
    pending: Vec<Arc<PendingGroup>>,
    /// How many messages were settled.
    progress: Arc<AtomicU64>,
    /// Groups that are being delivered.
    running: JoinSet<Finished>,
    /// Groups whose delivery has ended while this sink waited.
    finished: Vec<Result<Finished, JoinError>>,
    /// Groups that could not be delivered, in their order. The next call of `settle` tries again.
    failed: Vec<Delivery>,
    groups_max: usize,
    /// The state that the cursor has.
    committed: String,
    /// `None` once the sink is dropped.
    runtime: Option<Runtime>,
}

impl<D: Destination> AsyncSink<D> {
    /// Delivers at most `groups_max` groups at a time. With 1 the destination gets them in order.
    pub(super) fn new(destination: D, groups_max: usize) -> io::Result<AsyncSink<D>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(AsyncSink {
            destination: Arc::new(destination),
            pending: Vec::new(),
            progress: Arc::default(),
            running: JoinSet::new(),
            finished: Vec::new(),
            failed: Vec::new(),
            groups_max,
            // The first step of a driver commits.
            committed: String::new(),
            runtime: Some(runtime),
        })
    }

    fn begin(&mut self, mut delivery: Delivery) {
        let Some(runtime) = &self.runtime else { return };
        let destination = Arc::clone(&self.destination);
        let deliver = async move {
            let delivered = destination.deliver(&mut delivery).await;
            (delivery, delivered)
        };
        self.running.spawn_on(deliver, runtime.handle());
    }

    fn room(&self) -> Room {
        let groups = self.running.len() + self.finished.len() + self.failed.len();
        if groups < self.groups_max { Room::Free } else { Room::Full }
    }
}

impl<D: Destination> Sink for AsyncSink<D> {
    fn submit(&mut self, group: Group, begun: u64, _now: Now) -> Result<Room, Problem> {
        let pending = Arc::new(PendingGroup::new(group, begun, Arc::clone(&self.progress)));
        self.pending.push(Arc::clone(&pending));
        self.begin(Delivery::new(pending));
        Ok(self.room())
    }

    fn settle(&mut self, _now: Now, settled: &mut Vec<Settled>) -> Result<Room, Problem> {
        for delivery in std::mem::take(&mut self.failed) {
            self.begin(delivery);
        }
        if let Some(runtime) = &self.runtime {
            // Every delivery proceeds as far as it can without waiting.
            runtime.block_on(tokio::task::yield_now());
        }
        while let Some(finished) = self.running.try_join_next() {
            self.finished.push(finished);
        }
        let mut problem = None;
        for finished in std::mem::take(&mut self.finished) {
            match finished {
                Ok((delivery, Ok(()))) => {
                    self.pending.retain(|pending| !Arc::ptr_eq(pending, delivery.pending()));
                    settled.push(delivery.pending().settled());
                }
                Ok((delivery, Err(error))) => {
                    self.failed.push(delivery);
                    problem.get_or_insert(Problem::Retry(error));
                }
                // The delivery is gone: the group is submitted again after `roll_back`.
                Err(panic) => problem = Some(Problem::Failed(io::Error::other(panic))),
            }
        }
        match problem {
            Some(problem) => Err(problem),
            // The state is committed at once, because later deliveries rely on it. It seldom changes.
            None if self.destination.state() != self.committed => Ok(Room::Commit),
            None => Ok(self.room()),
        }
    }

    fn settled_part(&mut self, until: LanePlace) -> Option<Settled> {
        let pending = self.pending.iter().find(|pending| pending.until() == until)?;
        pending.has_moved().then(|| pending.settled())
    }

    fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    fn wait(&mut self, progress: &Progress, seen: u64, patience: Duration) {
        let Some(runtime) = &self.runtime else { return };
        self.finished.extend(wait_for_task(runtime, &mut self.running, progress, seen, patience));
    }

    fn state(&self) -> String {
        self.destination.state()
    }

    fn committed(&mut self, _: &[LanePlace]) {
        self.committed = self.destination.state();
    }

    fn may_give_up(&self) -> bool {
        true
    }

    fn roll_back(&mut self) -> io::Result<()> {
        self.running = JoinSet::new();
        self.pending.clear();
        self.finished.clear();
        self.failed.clear();
        Ok(())
    }
}

impl<D> Drop for AsyncSink<D> {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
