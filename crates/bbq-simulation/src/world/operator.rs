//! An operator, who pauses sinks, ends their pauses, skips messages, and has outputs opened again.

use std::sync::atomic::Ordering;

use bbq_sink::Skip;

use super::World;
use crate::note;
use crate::server::{NAME_ENDS, name_of};

/// The longest time that messages to be skipped may have waited at least.
const SKIPPED_AGE_NS_MAX: u64 = 1_000_000_000;

impl World {
    /// The operator does at most one thing of each kind.
    pub(super) fn operate(&mut self) {
        let (Some(plan), Some(server)) = (self.plan.operator, &mut self.server) else { return };
        let sink = self.random.index(server.sinks.len());
        if self.random.chance(plan.pause) {
            let is_paused = !server.sinks[sink].is_paused;
            note!(self.trace, "sink {sink} is paused: {is_paused}");
            server.sinks[sink].is_paused = is_paused;
        }
        if self.random.chance(plan.skip_one) {
            server.skip(sink, Skip::One, &mut self.trace);
        }
        if self.random.chance(plan.skip_before) {
            let age = self.random.below(SKIPPED_AGE_NS_MAX);
            let time = self.time.unix_ns.load(Ordering::Relaxed).saturating_sub(age);
            server.skip(sink, Skip::Before(time), &mut self.trace);
        }
        if self.random.chance(plan.reopen) {
            note!(self.trace, "the output of sink {sink} is opened again");
            server.sinks[sink].reopen();
        }
        if self.random.chance(plan.resend) {
            let _left_or_done = server.resend(sink, &mut self.trace);
        }
        if self.random.chance(plan.rename) {
            let name = self.random.index(NAME_ENDS.len());
            if server.rename(sink, &name_of(sink, name), &mut self.trace) {
                self.names[sink] = name;
            }
        }
    }
}
