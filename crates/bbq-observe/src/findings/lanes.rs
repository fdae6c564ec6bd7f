//! Findings about lanes. Those that wait for the same reason are one: a server has as many lanes as processors.

use bbq_intake::OnFull;
use bbq_spool::{Lane, LaneCondition, NoRoom};

use super::problem;
use crate::parts::{Parts, waiting_for_space};
use crate::status::Finding;

/// So many lanes are named; of more, the number is told.
const NAMED_MAX: usize = 4;

impl Parts {
    pub(super) fn of_lanes(&self) -> Vec<Finding> {
        let failed = self.lanes.iter().filter(|lane| lane.view().condition == LaneCondition::Failed);
        let mut found: Vec<Finding> = failed.map(failed_lane).collect();
        let waiting = self.lanes.iter().filter_map(|lane| Some((lane, lane.no_room()?)));
        let (full, elsewhere): (Vec<_>, Vec<_>) = waiting.partition(|(_, no_room)| no_room.is_spool_full);
        found.extend([full, elsewhere].iter().filter_map(|waiting| self.waiting(waiting)));
        found
    }

    fn waiting(&self, waiting: &[(&Lane, NoRoom)]) -> Option<Finding> {
        let (first, no_room) = waiting.first()?;
        // Which lanes they are changes from second to second; it stays one finding.
        let subject = if no_room.is_spool_full { "spool" } else { "disk of the spool" };
        let indices: Vec<String> = waiting.iter().map(|(lane, _)| lane.index().to_string()).collect();
        let text = match indices.as_slice() {
            [_] => waiting_for_space(first, no_room),
            few if few.len() <= NAMED_MAX => {
                format!("lanes {} wait for space: {}", few.join(", "), no_room.why)
            }
            many => format!("{} lanes wait for space: {}", many.len(), no_room.why),
        };
        let undurable = |lane: &Lane| self.workers.get(lane.index() as usize)?.undurable.records();
        let in_memory: u64 = waiting.iter().filter_map(|(lane, _)| undurable(lane)).sum();
        let what = if in_memory == 1 { "1 message is" } else { &*format!("{in_memory} messages are") };
        let effect = format!("{what} in memory only; {}", self.when_full());
        let remedy = match (no_room.is_spool_full, self.sinks.is_empty()) {
            (false, _) => {
                "make room before you stop the server: a stop without room loses messages in memory that no client sends again"
            }
            (true, true) => "no sink is configured, so nothing makes room: add one and restart",
            (true, false) => "fix the sink that has a problem, or has most queued: it keeps the segments",
        };
        Some(problem("lane-waits-for-space", subject.to_owned(), text, remedy).with_effect(effect))
    }

    /// What happens to new messages when memory is full, too.
    fn when_full(&self) -> &'static str {
        let mut ways = self.listeners.iter().map(|listener| listener.spec().on_full);
        let first = ways.next();
        match first.filter(|first| ways.all(|way| way == *first)) {
            Some(OnFull::Block) => "when memory is full, senders wait (on_full=block)",
            Some(OnFull::DropNewest) => "when memory is full, new messages are dropped (on_full=drop-newest)",
            Some(OnFull::DropOldest) => "the oldest messages are deleted for new ones (on_full=drop-oldest)",
            None => {
                "when memory is full, senders wait or messages are dropped, as on_full of each listener says"
            }
        }
    }
}

fn failed_lane(lane: &Lane) -> Finding {
    let subject = format!("lane {}", lane.index());
    let why = lane.failure().unwrap_or_default();
    let text = format!("{subject} failed and accepts nothing until a restart: {why}");
    let remedy = "check the disk (dmesg), then restart: the new start reads what the disk really has";
    let effect = "bbq clients send unacknowledged messages again; other messages in its memory are dropped (unwritten)";
    problem("lane-failed", subject, text, remedy).with_effect(effect.to_owned())
}
