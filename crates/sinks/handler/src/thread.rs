//! A thread of the pool: gives the messages of its lanes to its handler.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bbq_sink::{PendingGroup, REFUSED};

use super::batch::{Batch, Part};
use super::desk::{Desk, Done, Work};
use super::error::{HandlerError, Kind};
use super::handling::Handler;
use super::position::Position;

/// First and longest pause before a call that failed is made again.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(50);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct HandlerThread {
    desk: Arc<Desk>,
    handler: Box<dyn Handler>,
    queue: u128,
    batch: Batch,
    /// By lane, how many messages the handler has committed, as it said when it was last asked.
    positions: HashMap<u32, u64>,
    retry_pause: Duration,
}

/// Why a call did not succeed.
enum Failure {
    Retry(String),
    /// The message with this index, by the handler's own words.
    Refused {
        index: usize,
        why: String,
    },
    /// The thread is to end.
    Ended,
}

impl HandlerThread {
    pub(super) fn new(desk: Arc<Desk>, handler: Box<dyn Handler>, queue: u128) -> HandlerThread {
        HandlerThread {
            desk,
            handler,
            queue,
            batch: Batch::new(queue),
            positions: HashMap::new(),
            retry_pause: RETRY_PAUSE_MIN,
        }
    }

    /// Runs until the desk ends.
    pub(super) fn run(mut self) {
        let desk = Arc::clone(&self.desk);
        while let Some(work) = desk.take() {
            let Some(done) = self.handle(&work) else { return };
            let has_failed = done.failure.is_some();
            if has_failed || done.needs_commit {
                self.positions.clear();
            }
            if !desk.put(&work, done) {
                self.positions.clear();
            }
            if has_failed {
                desk.pause(&work, self.retry_pause);
                self.retry_pause = (self.retry_pause * 2).min(RETRY_PAUSE_MAX);
            } else {
                self.retry_pause = RETRY_PAUSE_MIN;
            }
        }
    }

    /// Handles the first messages. `None`: the thread is to end.
    fn handle(&mut self, work: &Work) -> Option<Done> {
        let failed = |why| Done { settled_groups: 0, needs_commit: false, failure: Some(why) };
        match self.skip_known(&work.groups) {
            Err(Failure::Ended) => return None,
            Err(Failure::Retry(why) | Failure::Refused { why, .. }) => return Some(failed(why)),
            Ok(()) => {}
        }
        let parts = self.batch.fill(&work.groups);
        let handled = if self.batch.is_empty() { Ok(()) } else { self.call() };
        let done = match handled {
            Ok(()) => {
                parts.iter().for_each(|part| part.group.confirm_until(part.behind));
                let settled_groups = parts.iter().filter(|part| part.is_rest).count();
                Done { settled_groups, needs_commit: false, failure: None }
            }
            Err(Failure::Refused { index, why }) => {
                let settled_groups = refuse(&parts, index as u64, why);
                Done { settled_groups, needs_commit: true, failure: None }
            }
            Err(Failure::Retry(why)) => failed(why),
            Err(Failure::Ended) => return None,
        };
        self.batch.clear();
        Some(done)
    }

    /// Confirms messages that the handler has committed already.
    fn skip_known(&mut self, groups: &[Arc<PendingGroup>]) -> Result<(), Failure> {
        let Some(lane) = groups.first().map(|group| group.until().lane) else { return Ok(()) };
        if !self.positions.contains_key(&lane) {
            let committed = self.ask(lane)?.unwrap_or(0);
            self.positions.insert(lane, committed);
        }
        let committed = self.positions.get(&lane).copied().unwrap_or(0);
        for group in groups {
            let of_group = committed.saturating_sub(group.first_record()).min(group.group().records());
            let before = group.place();
            if of_group > before.done() {
                group.confirm_next(of_group - before.done(), before.received_ns);
            }
        }
        Ok(())
    }

    /// How many messages of the lane the handler has committed, if it knows.
    fn ask(&mut self, lane: u32) -> Result<Option<u64>, Failure> {
        let position = self.guarded(|handler, _| handler.position(lane))?;
        let is_known = |position: &Position| position.queue == self.queue && position.lane == lane;
        Ok(position.filter(is_known).map(|position| position.messages))
    }

    fn call(&mut self) -> Result<(), Failure> {
        let (index, why) = match self.guarded(|handler, batch| handler.handle(batch.messages())) {
            Err(Failure::Refused { index, why }) => (index, why),
            other => return other,
        };
        // Messages that the handler has said to have, and whose transaction it has rolled back, would be lost.
        let lane = self.batch.messages().lane();
        let before = self.batch.messages_before(index);
        match self.ask(lane)? {
            Some(committed) if index > 0 && committed < before => Err(Failure::Retry(format!(
                "the handler refuses message {} of lane {lane}, and its position is {committed}: it must commit what comes \
                 before a message, and then refuse the message",
                before + 1
            ))),
            _ => Err(Failure::Refused { index, why }),
        }
    }

    /// Calls the handler. A panic is an error.
    fn guarded<T>(
        &mut self,
        call: impl FnOnce(&mut dyn Handler, &Batch) -> Result<T, HandlerError>,
    ) -> Result<T, Failure> {
        if !self.desk.begin_call() {
            return Err(Failure::Ended);
        }
        let (handler, batch) = (&mut *self.handler, &self.batch);
        let returned = catch_unwind(AssertUnwindSafe(|| call(handler, batch)));
        self.desk.end_call();
        match returned {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(HandlerError(Kind::Retry(why)))) => Err(Failure::Retry(why)),
            Ok(Err(HandlerError(Kind::Refuse { position, why }))) => match self.batch.index_of(position) {
                Some(index) => Err(Failure::Refused { index, why }),
                None => {
                    Err(Failure::Retry(format!("the handler refuses a message that it does not have: {why}")))
                }
            },
            Err(panic) => Err(Failure::Retry(format!("the handler panicked: {}", text_of(&*panic)))),
        }
    }
}

/// Settles the messages before the one with this index, and refuses that one. Returns how many groups have nothing left.
fn refuse(parts: &[Part], index: u64, why: String) -> usize {
    let (mut settled_groups, mut before) = (0, index);
    for part in parts {
        if before >= part.records {
            part.group.confirm_until(part.behind);
            before -= part.records;
            settled_groups += usize::from(part.is_rest);
            continue;
        }
        let received_ns = part.behind.received_ns;
        part.group.confirm_next(before, received_ns);
        part.group.reject_next(1, received_ns, REFUSED, why);
        break;
    }
    settled_groups
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}
