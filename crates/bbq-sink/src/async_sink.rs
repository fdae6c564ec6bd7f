//! Makes a sink out of a destination with an `async fn`, on a runtime of the sink's thread.
//!
//! While all deliveries are under way, groups wait in their order. The next delivery takes them together, as a span: a destination that
//! takes ten requests a second gets all messages in ten requests a second, and one that is fast gets each group at once.
//!
//! Messages that a destination could not take are given to it again; the driver decides when. A destination that hangs holds up
//! only its own sink: when the server is to hold or to stop, unconfirmed messages are given up, and are sent again later. The
//! next commit remembers how many messages of a group are confirmed.
//!
//! Invariant: no call but `wait` waits for the destination.
//! Invariant: nothing runs on tokio's blocking threads. tokio panics when the system cannot start a thread.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bbq_spool::{Group, LanePlace, Progress};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinError, JoinSet};

use super::delivery::PendingGroup;
use super::interface::{Now, Problem, Room, Settled, Sink};
use super::span::Delivery;
use super::tasks::wait_for_task;

/// Bytes of the groups of a span, unless the first is larger: as many as a request takes.
const SPAN_BYTES_TARGET: usize = 1024 * 1024;

/// Where groups are delivered to.
pub(crate) trait Destination: Send + Sync + 'static {
    /// Whether it knows by their parts what it has already, so that each group is a span, which is cut at the same places again.
    fn knows_parts(&self) -> bool {
        false
    }

    /// Most deliveries at a time. With 1 the destination gets the groups in order.
    fn deliveries_max(&self) -> usize;

    /// See [`Sink::takes_within`].
    fn takes_within(&self) -> Duration;

    /// Delivers the rest of a span, or rejects it. After an error the function is called again for what is left then. The text
    /// of the error tells the operator what to do.
    fn deliver(&self, delivery: &mut Delivery) -> impl Future<Output = io::Result<()>> + Send;

    /// What the cursor remembers; see [`Sink::state`].
    fn state(&self) -> String;
}

type Finished = (Delivery, io::Result<()>);

/// See the module.
pub(crate) struct AsyncSink<D> {
    destination: Arc<D>,
    /// Every group that is submitted and not settled, in their order.
    pending: Vec<Arc<PendingGroup>>,
    /// Those of them that are in no delivery yet.
    waiting: VecDeque<Arc<PendingGroup>>,
    /// How many messages were settled.
    progress: Arc<AtomicU64>,
    /// How many were when settled groups were looked for.
    looked_at: u64,
    running: JoinSet<Finished>,
    /// Deliveries that have ended while this sink waited.
    finished: Vec<Result<Finished, JoinError>>,
    /// Deliveries that the destination has not taken, in their order. Calls of `settle` try again, as many at a time as there may be.
    failed: Vec<Delivery>,
    /// The state that the cursor has.
    committed: String,
    /// `None` once the sink is dropped.
    runtime: Option<Runtime>,
}

impl<D: Destination> AsyncSink<D> {
    /// A sink without groups.
    pub(crate) fn new(destination: D) -> io::Result<AsyncSink<D>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(AsyncSink {
            destination: Arc::new(destination),
            pending: Vec::new(),
            waiting: VecDeque::new(),
            progress: Arc::default(),
            looked_at: 0,
            running: JoinSet::new(),
            finished: Vec::new(),
            failed: Vec::new(),
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

    /// Begins as many deliveries of what waits as there may be.
    fn begin_waiting(&mut self) {
        let deliveries_max = self.destination.deliveries_max();
        while self.running.len() + self.finished.len() + self.failed.len() < deliveries_max {
            let Some(first) = self.waiting.pop_front() else { return };
            let (mut bytes, mut span) = (first.group().bytes(), vec![first]);
            if !self.destination.knows_parts() {
                while let Some(next) =
                    self.waiting.pop_front_if(|next| bytes + next.group().bytes() <= SPAN_BYTES_TARGET)
                {
                    bytes += next.group().bytes();
                    span.push(next);
                }
            }
            self.begin(Delivery::new(span));
        }
    }

    /// Every delivery proceeds as far as it can without waiting.
    fn proceed(&mut self) {
        if let Some(runtime) = &self.runtime {
            runtime.block_on(tokio::task::yield_now());
        }
        while let Some(finished) = self.running.try_join_next() {
            self.finished.push(finished);
        }
    }

    /// Takes the groups that are settled, also those of a delivery that goes on.
    fn take_settled(&mut self, settled: &mut Vec<Settled>, has_finished: bool) {
        let progress = self.progress.load(Ordering::Relaxed);
        if std::mem::replace(&mut self.looked_at, progress) == progress && !has_finished {
            return;
        }
        self.pending.retain(|pending| {
            let is_whole = pending.is_whole();
            if is_whole {
                settled.push(pending.settled());
            }
            !is_whole
        });
    }
}

impl<D: Destination> Sink for AsyncSink<D> {
    fn submit(&mut self, group: Group, begun: u64, _now: Now) -> Result<Room, Problem> {
        let pending = Arc::new(PendingGroup::new(group, begun, Arc::clone(&self.progress)));
        self.pending.push(Arc::clone(&pending));
        self.waiting.push_back(pending);
        Ok(Room::Free)
    }

    fn settle(&mut self, _now: Now, settled: &mut Vec<Settled>) -> Result<Room, Problem> {
        let room = self.destination.deliveries_max().saturating_sub(self.running.len() + self.finished.len());
        for delivery in self.failed.drain(..room.min(self.failed.len())).collect::<Vec<_>>() {
            self.begin(delivery);
        }
        self.begin_waiting();
        self.proceed();
        let (mut problem, mut has_finished) = (None, false);
        for finished in std::mem::take(&mut self.finished) {
            match finished {
                Ok((_, Ok(()))) => has_finished = true,
                Ok((delivery, Err(error))) => {
                    self.failed.push(delivery);
                    problem.get_or_insert(Problem::Retry(error));
                }
                // The delivery is gone: the groups are submitted again after `roll_back`.
                Err(panic) => problem = Some(Problem::Failed(io::Error::other(panic))),
            }
        }
        self.take_settled(settled, has_finished);
        match problem {
            Some(problem) => Err(problem),
            // The state is committed at once, because later deliveries rely on it. It seldom changes.
            None if self.destination.state() != self.committed => Ok(Room::Commit),
            None => Ok(Room::Free),
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

    fn takes_within(&self) -> Duration {
        self.destination.takes_within()
    }

    fn roll_back(&mut self) -> io::Result<()> {
        self.running = JoinSet::new();
        self.pending.clear();
        self.waiting.clear();
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
