//! How a driver passes messages when an operator tells it to.

use std::io;

use bbq_spool::{Cursor, Next};
use tracing::info;

use super::{SinkDriver, Task};
use crate::interface::{Now, Problem};
use crate::lenses::Seen;
use crate::orders::Skip;
use crate::skip::{self, Skipped};

impl SinkDriver {
    /// Passes messages without delivering them, into the dead letters, as long as `goes_on` says so. For a sink that holds. Returns how
    /// many.
    ///
    /// # Errors
    /// Why no more of them are passed, with how many were.
    pub fn skip(&mut self, skip: Skip, now: Now, goes_on: &dyn Fn() -> bool) -> Result<u64, String> {
        self.now = now;
        // What the destination has taken is not to be skipped. From here on nothing is on its way, and the readers are where the cursor is.
        if let Err(problem) = self.commit_taken() {
            if let Problem::Failed(_) = problem {
                self.parts.roll_back_ledger();
                self.task = Task::RollBack;
            }
            return Err(io::Error::from(problem).to_string());
        }
        let (before, mut skipped) = (skip::skipped_of(&self.parts.committed), 0);
        let tried = self.try_skip(skip, &mut skipped, goes_on).map_err(io::Error::from);
        let messages = if let Task::Remember { .. } = self.task {
            // The letters are durable, and only the cursor does not say so yet: the next steps write it. Then the readers go back to it.
            self.rolls_back_after = true;
            skipped
        } else {
            // What is not committed is not skipped.
            self.task = Task::RollBack;
            skip::skipped_of(&self.parts.committed).saturating_sub(before)
        };
        if messages > 0 {
            info!(sink = self.parts.name, messages, "skipped by an operator");
        }
        match tried {
            Ok(()) => Ok(messages),
            Err(error) if messages == 0 => Err(error.to_string()),
            Err(error) => Err(format!("skipped {messages}, and then: {error}")),
        }
    }

    fn try_skip(&mut self, skip: Skip, skipped: &mut u64, goes_on: &dyn Fn() -> bool) -> Result<(), Problem> {
        self.roll_back().map_err(Problem::Retry)?;
        let cursor = Cursor { places: self.in_flight.places().to_vec(), ..Cursor::default() };
        let mut readers = self.parts.spool.readers(&cursor);
        let plan = skip::plan(&mut readers, self.parts.lenses.as_mut(), skip).map_err(Problem::Retry)?;
        for (reader, until) in plan.until.into_iter().enumerate() {
            while self.parts.readers[reader].place().position < until && *skipped < plan.most {
                *skipped += self.skip_group(reader, plan.most - *skipped)?;
                if self.parts.dead_letters.is_full() {
                    self.commit()?;
                }
                if !goes_on() {
                    break;
                }
            }
        }
        self.commit()?;
        if goes_on() { Ok(()) } else { Err(Problem::Retry(io::Error::other("the server stops or reloads"))) }
    }

    /// Passes the next messages of a lane, at most to the end of its next group.
    fn skip_group(&mut self, reader: usize, most: u64) -> Result<u64, Problem> {
        match self.parts.readers[reader].next_group().map_err(Problem::Retry)? {
            Next::CaughtUp => Ok(0),
            Next::Lost(lost) => {
                let place = self.parts.readers[reader].place();
                self.in_flight.lose(reader, place, lost);
                self.count_settled();
                Ok(0)
            }
            Next::Group(group) => {
                let Seen { group, filtered, is_empty } = Seen::through(self.parts.lenses.as_mut(), group);
                if is_empty {
                    self.in_flight.leave_out(reader, &group, filtered);
                    self.count_settled();
                    return Ok(0);
                }
                let begun = self.in_flight.submit(reader, &group, filtered);
                let Skipped { records, is_whole, settled } = skip::skipped(&group, begun, most);
                if is_whole {
                    self.settled.push(settled);
                    self.count_settled();
                } else {
                    self.parts.dead_letters.keep(self.in_flight.begin_with(reader, settled));
                    self.parts.ledger.set_begun(self.in_flight.begun());
                    self.is_dirty = true;
                }
                Ok(records)
            }
        }
    }
}
