//! The sink gives groups to the desks of its threads, and collects what is settled there.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use bbq_sink::{Now, PendingGroup, Problem, Room, Settled, Sink};
use bbq_spool::{Group, LanePlace, Progress};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tracing::warn;

use super::desk::Desk;
use super::slot::Slot;
use super::thread::HandlerThread;

/// A handler that does not return for so long is a problem that the status shows.
const STALL: Duration = Duration::from_secs(30);

/// A desk and its thread.
struct Seat {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
    /// The number of calls that was seen last, and since when.
    calls: u64,
    since: Duration,
}

/// See the module.
pub(super) struct HandlerSink {
    name: String,
    queue: u128,
    seats: Vec<Seat>,
    alert: Arc<Notify>,
    progress: Arc<AtomicU64>,
    runtime: Runtime,
    /// Of the last call.
    now: Duration,
}

impl HandlerSink {
    /// Starts a thread for each handler. If one cannot be started, the others end, and every handler is in its slot again.
    pub(super) fn start(name: &str, slots: &[Slot], queue: u128) -> io::Result<HandlerSink> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let alert = Arc::new(Notify::new());
        let mut sink = HandlerSink {
            name: name.to_owned(),
            queue,
            seats: Vec::new(),
            alert: Arc::clone(&alert),
            progress: Arc::default(),
            runtime,
            now: Duration::ZERO,
        };
        for (index, slot) in slots.iter().enumerate() {
            let desk = Arc::new(Desk::new(Arc::clone(&alert)));
            let (slot, at) = (slot.clone(), Arc::clone(&desk));
            let thread = Builder::new().name(format!("handler-{index}")).spawn(move || {
                // Taken with the first work: until every thread exists, a handler stays in its slot.
                if at.take().is_some()
                    && let Some(handler) = slot.take()
                {
                    HandlerThread::new(at, handler, queue).run();
                }
            })?;
            sink.seats.push(Seat { desk, thread: Some(thread), calls: 0, since: Duration::ZERO });
        }
        Ok(sink)
    }

    fn desk(&self, lane: u32) -> &Desk {
        &self.seats[lane as usize % self.seats.len()].desk
    }
}

impl Sink for HandlerSink {
    fn submit(&mut self, group: Group, begun: u64, _now: Now) -> Result<Room, Problem> {
        let lane = group.until().lane;
        self.desk(lane).submit(Arc::new(PendingGroup::new(group, begun, Arc::clone(&self.progress))));
        Ok(Room::Free)
    }

    fn has_room_for(&self, lane: u32) -> bool {
        self.desk(lane).has_room()
    }

    fn settle(&mut self, now: Now, settled: &mut Vec<Settled>) -> Result<Room, Problem> {
        self.now = now.monotonic;
        let mut needs_commit = false;
        for seat in &self.seats {
            needs_commit |= seat.desk.collect(settled);
        }
        Ok(if needs_commit { Room::Commit } else { Room::Free })
    }

    fn settled_part(&mut self, until: LanePlace) -> Option<Settled> {
        let pending = self.desk(until.lane).pending(until)?;
        pending.has_moved().then(|| pending.settled())
    }

    fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    fn standing_problem(&mut self) -> Option<String> {
        let now = self.now;
        self.seats.iter_mut().find_map(|seat| {
            let (failure, calls) = seat.desk.condition();
            if seat.calls != calls {
                (seat.calls, seat.since) = (calls, now);
            }
            let is_stalled = calls % 2 == 1 && now.saturating_sub(seat.since) >= STALL;
            let stalled = || format!("the handler has not returned for {} s", STALL.as_secs());
            failure.or_else(|| is_stalled.then(stalled))
        })
    }

    fn state(&self) -> String {
        format!("queue {:032x}", self.queue)
    }

    fn committed(&mut self, _: &[LanePlace]) {
        self.seats.iter().for_each(|seat| seat.desk.committed());
    }

    fn wait(&mut self, progress: &Progress, seen: u64, patience: Duration) {
        let alert = &self.alert;
        self.runtime.block_on(async {
            tokio::select! {
                () = alert.notified() => {}
                () = progress.changed(seen) => {}
                () = tokio::time::sleep(patience) => {}
            }
        });
    }

    fn may_give_up(&self) -> bool {
        true
    }

    fn roll_back(&mut self) -> io::Result<()> {
        self.seats.iter().for_each(|seat| seat.desk.forget());
        Ok(())
    }
}

impl Drop for HandlerSink {
    /// Waits until the handlers are dropped, except for one that has not returned.
    fn drop(&mut self) {
        let in_call: Vec<bool> = self.seats.iter().map(|seat| seat.desk.end()).collect();
        for (seat, is_in_call) in self.seats.iter_mut().zip(in_call) {
            match seat.thread.take() {
                Some(_) if is_in_call => warn!(
                    sink = self.name,
                    "a handler has not returned; its thread ends when it does, its messages stay spooled"
                ),
                // Its panics are caught, but for one of the handler's Drop, which is in the log.
                Some(thread) => drop(thread.join()),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HandlerError, Messages};

    #[test]
    fn a_handler_that_does_not_return_becomes_a_problem() {
        let slot = Slot::new(Box::new(|_: Messages<'_>| -> Result<(), HandlerError> { Ok(()) }));
        let mut sink = HandlerSink::start("all", &[slot], 7).unwrap();
        let problem_at = |sink: &mut HandlerSink, seconds| {
            let now = Now::new(Duration::from_secs(seconds), 0);
            assert!(matches!(sink.settle(now, &mut Vec::new()), Ok(Room::Free)));
            sink.standing_problem()
        };
        // As its thread does around a call.
        assert!(sink.seats[0].desk.begin_call());
        assert_eq!(problem_at(&mut sink, 100), None);
        assert_eq!(problem_at(&mut sink, 129), None);
        assert!(problem_at(&mut sink, 130).is_some_and(|why| why.contains("30 s")));
        sink.seats[0].desk.end_call();
        assert_eq!(problem_at(&mut sink, 200), None);
        assert_eq!(problem_at(&mut sink, 300), None, "it is in no call");
    }
}
