//! A sink at work, in steps: reads a group of every lane whose turn it is, writes them, and commits from time to time.
//!
//! Invariant: a step never waits, but for the system calls that it makes, and reads no clock: who takes the steps says what
//! time it is, and waits for what a step returns.

use std::sync::Arc;
use std::time::Duration;

use bbq_spool::{Cursor, GroupRead, LaneReader, ReadOrder, Spool};
use chrono::{DateTime, Utc};
use tracing::warn;

use super::SinkLedger;
use super::commit::Task;
use super::delivery::{Delivery, Wait};

/// At the latest so long after a write the output is made durable and the cursor with it: what a crash makes a sink write
/// again (and a file sink take back first).
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);
/// Nothing more to read for so long: commit now, so that a quiet server has nothing to repeat.
const IDLE_COMMIT: Duration = Duration::from_millis(50);

/// What time it is.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub(super) monotonic: Duration,
    pub(super) wall: DateTime<Utc>,
}

impl Now {
    /// `monotonic` is since any moment, the same for all steps, and never goes back. `unix_ns` is the wall clock's, and may.
    pub fn new(monotonic: Duration, unix_ns: u64) -> Now {
        let wall = DateTime::from_timestamp_nanos(i64::try_from(unix_ns).unwrap_or(i64::MAX));
        Now { monotonic, wall }
    }
}

/// What is wanted of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Deliver what is there.
    Deliver,
    /// Commit where it is.
    Hold,
    /// The same as `Deliver`, and commit when nothing is left.
    Drain,
}

/// What a step came to, and what is to happen before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkStep {
    /// Something was delivered; there may be more.
    Moved,
    /// Nothing is left to read: the next step when there is, at the latest after this time.
    Idle(Duration),
    /// Something failed, which the ledger shows: the next step after this time.
    Again(Duration),
    /// The output takes nothing for a moment: the next step at once.
    Blocked {
        /// The last commit covers all that was written: the sink may hold here.
        is_clean: bool,
    },
    /// Committed, as wanted.
    Held,
    /// Nothing is left to read, and everything is committed.
    Drained,
}

impl From<Wait> for SinkStep {
    fn from(wait: Wait) -> SinkStep {
        match wait {
            Wait::Again(pause) => SinkStep::Again(pause),
            Wait::Blocked { is_clean } => SinkStep::Blocked { is_clean },
        }
    }
}

/// See the module.
pub struct SinkSteps {
    pub(super) delivery: Delivery,
    readers: Vec<LaneReader>,
    order: ReadOrder,
    ledger: Arc<SinkLedger>,
    spool: Arc<Spool>,
    /// When there was something to read.
    last_moved: Duration,
    is_first: bool,
    /// A lane could not be read in this turn: so long it is left alone.
    pause: Option<Duration>,
}

impl SinkSteps {
    pub(super) fn new(
        delivery: Delivery,
        readers: Vec<LaneReader>,
        spool: Arc<Spool>,
        ledger: Arc<SinkLedger>,
    ) -> SinkSteps {
        SinkSteps {
            last_moved: delivery.now.monotonic,
            delivery,
            readers,
            order: spool.read_order(),
            ledger,
            spool,
            is_first: true,
            pause: None,
        }
    }

    /// One step, of which a part may be left for the next one.
    pub fn step(&mut self, now: Now, wish: Wish) -> SinkStep {
        self.delivery.set_now(now);
        self.try_step(now, wish).unwrap_or_else(SinkStep::from)
    }

    fn try_step(&mut self, now: Now, wish: Wish) -> Result<SinkStep, Wait> {
        self.delivery.advance()?;
        if let Some(cursor) = self.delivery.rewind() {
            self.readers = self.spool.readers(&cursor);
            self.order = self.spool.read_order();
        }
        // Of yesterday: what comes now does not belong to it.
        let is_due = std::mem::take(&mut self.is_first) && self.delivery.is_old();
        if is_due || wish == Wish::Hold {
            self.delivery.commit()?;
        }
        if wish == Wish::Hold {
            return Ok(SinkStep::Held);
        }
        let moved = self.turn()?;
        if moved {
            self.last_moved = now.monotonic;
        }
        if self.is_commit_due() {
            self.delivery.commit()?;
        }
        if let Some(pause) = self.pause.take() {
            return Ok(SinkStep::Again(pause));
        }
        if moved {
            return Ok(SinkStep::Moved);
        }
        if wish == Wish::Drain {
            self.delivery.commit()?;
            return Ok(SinkStep::Drained);
        }
        self.delivery.retention().retire();
        Ok(SinkStep::Idle(if self.delivery.is_dirty() { IDLE_COMMIT } else { COMMIT_INTERVAL }))
    }

    fn is_commit_due(&self) -> bool {
        let idle = self.delivery.now.monotonic.saturating_sub(self.last_moved);
        self.delivery.is_dirty() && (self.delivery.since_commit() >= COMMIT_INTERVAL || idle >= IDLE_COMMIT)
    }

    /// One group of each lane whose turn it is; returns whether there was any.
    fn turn(&mut self) -> Result<bool, Wait> {
        let mut moved = false;
        for index in 0..self.readers.len() {
            if self.order.is_due(&self.readers, index) {
                moved |= self.turn_of(index)?;
                self.commit_if_much()?;
            }
        }
        self.delivery.write_out()?;
        Ok(moved)
    }

    fn commit_if_much(&mut self) -> Result<(), Wait> {
        if !self.delivery.is_much() {
            return Ok(());
        }
        self.delivery.write_out()?;
        self.delivery.commit()
    }

    fn turn_of(&mut self, index: usize) -> Result<bool, Wait> {
        let mut received_ns = 0;
        let mut left = None;
        let (readers, delivery) = (&mut self.readers, &mut self.delivery);
        let reader = &mut readers[index];
        delivery.begin_group(index, reader.place());
        let read = reader.read(&mut |entry| {
            received_ns = entry.envelope.received_ns;
            if left.is_none() {
                left = delivery.take(entry).err();
            }
        });
        if let Some(wait) = left {
            delivery.leave_group();
            return Err(wait);
        }
        match read {
            Ok(GroupRead::CaughtUp) => return Ok(false),
            Ok(GroupRead::Group { records, lost }) => {
                delivery.end_group(reader.place(), records, lost);
                self.ledger.set_last_received_ns(received_ns);
            }
            Ok(GroupRead::Lost(lost)) => {
                let records = delivery.pass_lost(reader.place(), lost);
                if records > 0 {
                    warn!(sink = delivery.name(), records, reason = ?lost.reason, "messages will not be delivered");
                }
            }
            Err(error) => {
                // Nothing was handed on. The other lanes have their turn.
                self.pause = Some(delivery.reading_failed(&error));
                return Ok(false);
            }
        }
        delivery.reading_works();
        Ok(true)
    }

    /// Whether everything durable was read, written and committed.
    pub fn is_drained(&self) -> bool {
        let delivery = &self.delivery;
        let is_done = delivery.task == Task::Take && !delivery.is_dirty() && !delivery.rewinds;
        is_done && self.readers.iter().all(|reader| reader.queued() == 0)
    }

    /// The last commit.
    pub fn committed(&self) -> &Cursor {
        self.delivery.committed()
    }

    /// What it waits for, for a message.
    pub fn describe(&self) -> String {
        let queued: Vec<u64> = self.readers.iter().map(LaneReader::queued).collect();
        format!("queued {queued:?}, {:?}, dirty {}", self.delivery.task, self.delivery.is_dirty())
    }
}
