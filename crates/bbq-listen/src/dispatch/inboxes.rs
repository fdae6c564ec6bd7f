//! Puts accepted connections into the inboxes of workers, and moves connections and datagrams between inboxes.
//!
//! Invariant: a connection is in one inbox at a time.

use std::sync::Arc;

use crate::HandoffRule;
use crate::dispatch::epoll_set::EpollSet;
use crate::dispatch::inbox::INBOX_MAX;
use crate::io::accepted::Accepted;

/// How many more connections fit into the inbox of a worker.
pub(crate) fn room_of(epoll_set: &EpollSet) -> usize {
    epoll_set.inbox().map_or(0, |inbox| INBOX_MAX.saturating_sub(inbox.len()))
}

/// Puts a connection into the inbox of a worker. Returns which worker, or the connection if no inbox has room.
pub(crate) fn assign(
    epoll_sets: &[Arc<EpollSet>],
    rule: HandoffRule,
    last: usize,
    mut accepted: Accepted,
) -> Result<usize, Accepted> {
    let in_turn = || {
        let behind = (1..=epoll_sets.len()).map(|step| &epoll_sets[(last + step) % epoll_sets.len()]);
        behind.filter(|epoll_set| room_of(epoll_set) > 0)
    };
    // A worker that is stalled or absent is the last choice; of equals, the next one is taken.
    let rank = |epoll_set: &&Arc<EpollSet>| match rule {
        HandoffRule::RoundRobin => (!epoll_set.is_able(), 0),
        HandoffRule::Fewest => (!epoll_set.is_able(), epoll_set.open()),
    };
    while let Some((epoll_set, inbox)) =
        in_turn().min_by_key(rank).and_then(|epoll_set| Some((epoll_set, epoll_set.inbox()?)))
    {
        accepted.open = Some(epoll_set.open_one());
        match inbox.push(accepted) {
            Ok(()) => return Ok(epoll_set.worker()),
            // It is full now.
            Err(back) => accepted = back,
        }
    }
    Err(accepted)
}

/// Moves what is in the inboxes of a stalled or absent worker to other workers. Returns how much was moved.
pub(crate) fn redistribute(epoll_sets: &[Arc<EpollSet>], stalled: &EpollSet) -> usize {
    if stalled.inbox().is_none() && stalled.handed().is_none() {
        return 0;
    }
    let is_other = |epoll_set: &&Arc<EpollSet>| epoll_set.worker() != stalled.worker() && epoll_set.is_able();
    let others: Vec<_> = epoll_sets.iter().filter(is_other).cloned().collect();
    let mut moved = redistribute_datagrams(&others, stalled);
    let Some(inbox) = stalled.inbox() else { return moved };
    while others.iter().any(|epoll_set| room_of(epoll_set) > 0) {
        let Some(connection) = inbox.pop() else { break };
        if let Err(mut back) = assign(&others, HandoffRule::Fewest, 0, connection) {
            // The acceptor thread has filled the other inboxes.
            back.open = Some(stalled.open_one());
            inbox.put_back(back);
            break;
        }
        moved += 1;
    }
    moved
}

fn redistribute_datagrams(others: &[Arc<EpollSet>], stalled: &EpollSet) -> usize {
    let Some(inbox) = stalled.handed() else { return 0 };
    let mut moved = 0;
    let takers: Vec<_> = others.iter().filter_map(|other| Some((other, other.handed()?))).collect();
    for (other, taker) in takers.iter().cycle() {
        let Some(datagram) = inbox.pop() else { break };
        if let Err(back) = taker.push(datagram, || other.is_able()) {
            inbox.put_back(back);
            break;
        }
        moved += 1;
    }
    moved
}

/// Puts a connection into the inbox of the first worker, even if it is full: an accepted connection cannot be put back into the
/// kernel's queue.
pub(crate) fn push_to_first(epoll_sets: &[Arc<EpollSet>], mut accepted: Accepted) {
    if let Some((first, inbox)) =
        epoll_sets.first().and_then(|epoll_set| Some((epoll_set, epoll_set.inbox()?)))
    {
        accepted.open = Some(first.open_one());
        inbox.put_back(accepted);
    }
}
