//! The receivers of sinks that make requests: what they have seen, and what they have in the end.

use std::sync::atomic::Ordering;

use super::World;
use crate::history::Violation;
use crate::note;
use crate::receiver::Found;

/// How often the dead letters of a sink are sent again, in the end, until all of them are delivered. Once is enough, unless the order ends
/// early: that happens by chance.
const RESENDS_MAX: u32 = 100;
/// Dead letters are sent again in the end in one of so many worlds.
const ONE_IN_RESENDS: u64 = 2;

impl World {
    /// A receiver has seen a broken promise.
    pub(super) fn look_at_receivers(&mut self) -> Result<(), Violation> {
        for (sink, receiver) in &self.plan.server.receivers {
            if self.trace.is_on() {
                for event in receiver.events() {
                    note!(self.trace, "receiver of sink-{sink} {event}");
                }
            }
            if let Some(wrong) = receiver.wrong() {
                return Err(Violation(format!("sink-{sink}: {wrong}")));
            }
        }
        Ok(())
    }

    /// Compares what a receiver has with what was promised, once everything is drained.
    pub(super) fn check_receiver(&mut self, index: usize) -> Result<(), Violation> {
        let Some(server) = &mut self.server else { return Ok(()) };
        let letters = server.letters_of_all_names(index).map_err(Violation::new)?;
        let (records, sink) = (server.records(), &server.sinks[index]);
        let (delivered, dropped) = sink.ledger();
        let limits = self.plan.server.sinks[index].limits;
        let found = Found {
            sink: &sink.name,
            delivered,
            dropped: &dropped,
            records,
            letters: &letters,
            may_lose_letters: self.may_lose_letters[index],
            has_limits: limits.bytes_max.is_some() || limits.age_max.is_some() || limits.drops_oldest,
        };
        sink.receiver().map_or(Ok(()), |receiver| receiver.check(&found, &self.history))
    }

    /// The receivers take everything from here on, and an operator sends all dead letters again.
    pub(super) fn send_letters_again(&mut self) -> Result<(), Violation> {
        for (index, receiver) in self.plan.server.receivers.clone() {
            if !self.random.one_in(ONE_IN_RESENDS) {
                continue;
            }
            note!(self.trace, "sink-{index} takes everything");
            receiver.cure();
            self.send_letters_of(index)?;
            self.look_at_receivers()?;
            self.check_receiver(index)?;
        }
        Ok(())
    }

    fn send_letters_of(&mut self, index: usize) -> Result<(), Violation> {
        let mut last = None;
        for _ in 0..RESENDS_MAX {
            if self.server.is_none() {
                self.start_server();
                self.time.now_ns.fetch_add(1_000_000, Ordering::Relaxed);
            }
            let Some(server) = &mut self.server else { continue };
            let resent = server.resend(index, &mut self.trace);
            self.look_at_server();
            if let (Ok(resent), Some(server)) = (&resent, &mut self.server)
                && resent.left.is_none()
            {
                // An order that finds a rest sends the rest, and not what came since.
                if server.letters_of_all_names(index).map_err(Violation::new)?.is_empty() {
                    return Ok(());
                }
            }
            last = Some(resent);
        }
        Err(Violation(format!("sink-{index}: dead letters are left after {RESENDS_MAX} orders: {last:?}")))
    }
}
