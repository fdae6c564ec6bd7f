//! What a sink is to the driver that feeds it.
//!
//! The driver reads groups from the lanes and submits them. A sink says later which groups are delivered. From time to time the
//! driver commits: the sink makes durable what it has delivered, and the driver writes the cursor.
//!
//! ```text
//! submit(group) .. submit(group) -> settle() -> Settled ..      the driver counts, and moves the places of the lanes
//! commit() -> Remember: the driver writes the cursor -> commit() -> .. -> Done
//! any -> Failed -> roll_back(): the driver submits again what came after the last commit
//! ```

use std::io;
use std::time::Duration;

use bbq_spool::{Group, LanePlace, Progress};
use chrono::{DateTime, Utc};

use super::rejected::DeadLetter;
use super::step::Goal;

/// Nobody notices it at a destination that is read by people. A disk makes several groups durable meanwhile.
pub(crate) const GATHERS_FOR: Duration = Duration::from_millis(1);
/// See [`Sink::takes_within`]: no server with a protocol of its own takes that long for a batch.
pub const TAKES_WITHIN: Duration = Duration::from_secs(30);

/// Most groups of a lane in flight, unless the sink says otherwise.
pub(crate) const GROUPS_MAX: usize = 64;

/// The time of a step.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Since a moment that is the same for all steps.
    pub monotonic: Duration,
    /// The wall clock, which may go back.
    pub wall: DateTime<Utc>,
}

impl Now {
    /// `monotonic` counts from a moment that is the same for all steps, and never goes back. The wall clock, `unix_ns`, may go
    /// back.
    pub fn new(monotonic: Duration, unix_ns: u64) -> Now {
        let wall = DateTime::from_timestamp_nanos(i64::try_from(unix_ns).unwrap_or(i64::MAX));
        Now { monotonic, wall }
    }
}

/// Whether a sink takes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Another group may be submitted.
    Free,
    /// No group may be submitted before [`Sink::settle`] returns `Free`.
    Full,
    /// No group may be submitted before a commit, after which [`Sink::settle`] goes on.
    Commit,
}

/// What became of a group, or of its first records.
#[derive(Debug)]
pub struct Settled {
    /// [`Group::until`].
    pub until: LanePlace,
    /// Records that the destination has, and all records that were settled before the group was submitted.
    pub delivered: u64,
    /// Records that the destination refuses for good, by reason. Records in neither number were damaged in the spool.
    pub rejected: Vec<(&'static str, u64)>,
    /// The rejected records, to be kept.
    pub letters: Vec<DeadLetter>,
    /// When the last of its batches was received, Unix nanoseconds.
    pub received_ns: u64,
}

/// How far a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The cursor must have [`Sink::state`], and the places of the settled groups, before the sink goes on.
    Remember {
        /// The lane of the group that is being taken, and how many of its records the state covers already.
        begun: Option<(u32, u64)>,
    },
    /// The same, and nothing is left to do after it.
    RememberLast,
    /// Nothing is left to do, and the cursor has the state.
    Done,
}

/// Why a sink cannot go on.
#[derive(Debug)]
pub enum Problem {
    /// The same call may work later.
    Retry(io::Error),
    /// Everything after the last commit is in doubt: the driver calls [`Sink::roll_back`] next.
    Failed(io::Error),
    /// The destination takes nothing for a moment.
    Blocked {
        /// The last commit covers everything that the destination has.
        is_clean: bool,
    },
}

impl From<Problem> for io::Error {
    fn from(problem: Problem) -> io::Error {
        match problem {
            Problem::Retry(error) | Problem::Failed(error) => error,
            Problem::Blocked { .. } => {
                io::Error::new(io::ErrorKind::WouldBlock, "the destination takes nothing now")
            }
        }
    }
}

/// Why a sink is not open.
#[derive(Debug)]
pub enum OpenError {
    /// The destination is not ready. Opening is tried again, and the start goes on.
    NotYet(io::Error),
    /// The destination cannot be opened as it is configured. This may fail the start.
    Refused(io::Error),
}

/// A destination. Only [`Sink::wait`] may wait; every other call takes no longer than the system calls that it makes.
pub trait Sink: Send {
    /// What the calls from here on are for. Called before each step of the driver.
    fn set_goal(&mut self, goal: Goal) {
        let _unused = goal;
    }

    /// Takes a group whose first `begun` records are settled already. Called only when there is room. The sink has the group even
    /// if it returns a problem.
    fn submit(&mut self, group: Group, begun: u64, now: Now) -> Result<Room, Problem>;

    /// Most groups of a lane from the first that is not settled to the last that is submitted. This bounds what is delivered twice
    /// after a kill, and what is held back by a group that a destination does not take.
    fn groups_max(&self) -> usize {
        GROUPS_MAX
    }

    /// Whether the spool fills up, so that what is held back should be delivered soon. Called before each step of the driver.
    fn hurry(&mut self, is_pressed: bool) {
        let _unused = is_pressed;
    }

    /// Whether a group of this lane may be submitted, as far as only this lane is concerned.
    fn has_room_for(&self, lane: u32) -> bool {
        let _unused = lane;
        true
    }

    /// Goes on with the submitted groups, and adds those that are settled to `settled`, even if it returns a problem. Groups of
    /// one lane may be settled in any order.
    fn settle(&mut self, now: Now, settled: &mut Vec<Settled>) -> Result<Room, Problem>;

    /// The first records of a group that are settled before the whole group is, if any. `delivered` includes the records that
    /// were begun. A letter is returned once, here or in [`Sink::settle`].
    fn settled_part(&mut self, until: LanePlace) -> Option<Settled> {
        let _unused = until;
        None
    }

    /// A number that grows when records are settled, also in the middle of a group, and when the destination works again without records.
    fn progress(&self) -> u64 {
        0
    }

    /// A problem that holds up some lanes and not the others, as a text for people. It is shown until there is none and a commit
    /// succeeds.
    fn standing_problem(&mut self) -> Option<String> {
        None
    }

    /// Makes durable what is settled. Called again after each [`Commit::Remember`] until the commit is done, and after a problem.
    /// A sink whose settled groups are durable need not do anything.
    fn commit(&mut self, now: Now) -> Result<Commit, Problem> {
        let _unused = now;
        Ok(Commit::RememberLast)
    }

    /// What to remember in the cursor, one line; given to the sink when it is opened again.
    fn state(&self) -> String {
        String::new()
    }

    /// How long the destination may forget what it has acknowledged. For so long, what is delivered stays in the spool and the cursor
    /// behind it: the sink may get it again, and knows what the destination has of it.
    fn keep(&self) -> Duration {
        Duration::ZERO
    }

    /// The cursor has the state, and these places.
    fn committed(&mut self, places: &[LanePlace]) {
        let _unused = places;
    }

    /// Forgets all groups, and takes back the output since the last commit if possible. Then the sink's state is written
    /// to the cursor, and the groups are submitted again.
    fn roll_back(&mut self) -> io::Result<()>;

    /// How often another program cut the output short since it was opened: what it held may be kept elsewhere, or gone.
    fn truncations(&self) -> u64 {
        0
    }

    /// Bytes of output since the last commit.
    fn uncommitted_bytes(&self) -> u64 {
        0
    }

    /// Waits when nothing can be submitted or settled. Returns when `progress` has moved on from `seen` or something can be
    /// settled, at the latest after `patience`.
    fn wait(&mut self, progress: &Progress, seen: u64, patience: Duration) {
        progress.wait(seen, patience);
    }

    /// A sink that has taken everything looks for more at the earliest this long after it last did. Groups that become durable
    /// meanwhile are taken together: under load this spares wake-ups and writes.
    fn gathers_for(&self) -> Duration {
        GATHERS_FOR
    }

    /// Whether the driver may forget unsettled groups when the server is to hold. The destination may then get them twice.
    fn may_give_up(&self) -> bool {
        false
    }

    /// A destination that works takes something within this time, if anything is submitted. One that does not gets no more time for what is
    /// over the sink's limits.
    fn takes_within(&self) -> Duration {
        TAKES_WITHIN
    }

    /// Called in each step of a goal for which nothing more will be submitted: what the destination runs should end in order. Returns
    /// whether it has.
    fn finish(&mut self, now: Now) -> bool {
        let _unused = now;
        true
    }

    /// Gives back memory that a large group took. Called when nothing is left to submit.
    fn idle(&mut self) {}

    /// Bytes of memory that the sink holds: for output, and for unpacked batches.
    fn memory(&self) -> (usize, usize) {
        (0, 0)
    }
}
