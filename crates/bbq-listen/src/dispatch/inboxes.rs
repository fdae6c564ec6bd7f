//! Connections that were accepted for others: which worker's inbox they are left in, and how they leave one again.
//!
//! Invariant: a connection is in one inbox at a time.

use std::sync::Arc;

use crate::HandoffRule;
use crate::dispatch::door::Door;
use crate::dispatch::inbox::INBOX_MAX;
use crate::io::accepted::Accepted;

/// How many more connections fit into the inbox of a worker.
pub(crate) fn room_of(door: &Door) -> usize {
    door.inbox().map_or(0, |inbox| INBOX_MAX.saturating_sub(inbox.len()))
}

/// Leaves a connection with a worker; answers whom, or gives it back when no inbox has room.
pub(crate) fn give(
    doors: &[Arc<Door>],
    rule: HandoffRule,
    last: usize,
    mut accepted: Accepted,
) -> Result<usize, Accepted> {
    let in_turn = || {
        let behind = (1..=doors.len()).map(|step| &doors[(last + step) % doors.len()]);
        behind.filter(|door| room_of(door) > 0)
    };
    // One that is stalled or gone is the last resort; of equals it is the first in turn.
    let rank = |door: &&Arc<Door>| match rule {
        HandoffRule::RoundRobin => (!door.is_able(), 0),
        HandoffRule::Fewest => (!door.is_able(), door.open()),
    };
    while let Some((door, inbox)) = in_turn().min_by_key(rank).and_then(|door| Some((door, door.inbox()?))) {
        accepted.open = Some(door.open_one());
        match inbox.push(accepted) {
            Ok(()) => return Ok(door.worker()),
            // Full meanwhile.
            Err(back) => accepted = back,
        }
    }
    Err(accepted)
}

/// Takes what waits in the inbox of a worker that does not come around or is gone, and gives it to others; answers how much.
pub(crate) fn relieve(doors: &[Arc<Door>], stalled: &Door) -> usize {
    let Some(inbox) = stalled.inbox() else { return 0 };
    let is_other = |door: &&Arc<Door>| door.worker() != stalled.worker() && door.is_able();
    let others: Vec<_> = doors.iter().filter(is_other).cloned().collect();
    let mut moved = 0;
    while others.iter().any(|door| room_of(door) > 0) {
        let Some(connection) = inbox.pop() else { break };
        if let Err(mut back) = give(&others, HandoffRule::Fewest, 0, connection) {
            // The acceptor thread was quicker.
            back.open = Some(stalled.open_one());
            inbox.put_back(back);
            break;
        }
        moved += 1;
    }
    moved
}

/// Leaves a connection with the first worker, whose inbox is full: it has been accepted, and cannot go back.
pub(crate) fn put_anywhere(doors: &[Arc<Door>], mut accepted: Accepted) {
    if let Some((first, inbox)) = doors.first().and_then(|door| Some((door, door.inbox()?))) {
        accepted.open = Some(first.open_one());
        inbox.put_back(accepted);
    }
}
