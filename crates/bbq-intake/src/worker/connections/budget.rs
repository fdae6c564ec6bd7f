//! How many connections the process may have open: its limit of file descriptors, minus what the spool and other parts need. More
//! clients wait in the accept queue, so that the spool can still create segments.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::access::AddressShare;

/// Shared by all workers, and changed only when connections are accepted or closed, never per message.
#[derive(Debug)]
pub struct ConnectionBudget {
    open: AtomicU64,
    max: u64,
    closed: Notify,
    /// How many new connections wait until another connection is closed.
    wanted: AtomicU64,
    room_wanted: Notify,
}

impl ConnectionBudget {
    /// For at most `max` connections.
    #[must_use]
    pub fn new(max: u64) -> ConnectionBudget {
        ConnectionBudget {
            open: AtomicU64::new(0),
            max,
            closed: Notify::new(),
            wanted: AtomicU64::new(0),
            room_wanted: Notify::new(),
        }
    }

    /// The most connections.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.open.load(Ordering::Relaxed) >= self.max
    }

    /// Claims up to `wanted` connections of the remaining budget; the caller gives back what it does not use. Workers claim
    /// right before they accept, so that two workers never use the same part of the budget.
    pub(crate) fn claim(&self, wanted: usize) -> usize {
        let wanted = wanted as u64;
        let open = self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            Some(open + wanted.min(self.max.saturating_sub(open)))
        });
        let open = open.unwrap_or_else(|open| open);
        // The cast is exact, as the result is at most `wanted`.
        wanted.min(self.max.saturating_sub(open)) as usize
    }

    /// Counts connections that are open already.
    pub(crate) fn take(&self, connections: u64) {
        self.open.fetch_add(connections, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, connections: usize) {
        if connections > 0 && self.open.fetch_sub(connections as u64, Ordering::Relaxed) >= self.max {
            self.closed.notify_waiters();
        }
    }

    /// Asks all workers to close connections because `newcomers` new ones wait.
    pub(crate) fn want_room(&self, newcomers: u64) {
        self.wanted.store(newcomers, Ordering::Relaxed);
        self.room_wanted.notify_waiters();
    }

    /// Waits until [`ConnectionBudget::want_room`] is called.
    pub(crate) async fn room_wanted(&self) {
        self.room_wanted.notified().await;
    }

    /// Claims the right to close one more connection; `false` when enough are closed.
    pub(crate) fn claim_eviction(&self) -> bool {
        let one_less = |wanted: u64| wanted.checked_sub(1);
        self.wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// Returns a claim whose connection was not closed.
    pub(crate) fn return_eviction(&self) {
        self.wanted.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until the number of open connections is below the limit.
    pub(crate) async fn wait_closed(&self) {
        let closed = self.closed.notified();
        tokio::pin!(closed);
        closed.as_mut().enable();
        if self.is_used_up() {
            closed.await;
        }
    }
}

/// One connection of the budget, and of its address's, given back on drop.
pub(crate) struct BudgetShare {
    budget: Arc<ConnectionBudget>,
    /// `None` if the listener has no limit for an address.
    address: Option<Box<AddressShare>>,
}

impl BudgetShare {
    /// For a connection that was claimed or taken.
    pub(crate) fn of_claimed(
        budget: &Arc<ConnectionBudget>,
        address: Option<Box<AddressShare>>,
    ) -> BudgetShare {
        BudgetShare { budget: Arc::clone(budget), address }
    }

    /// Gives the connection back to the budget, and returns its share of its address.
    pub(crate) fn into_address(mut self) -> Option<Box<AddressShare>> {
        self.address.take()
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.give_back(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_never_go_over_the_limit_and_come_back() {
        let budget = ConnectionBudget::new(100);
        assert_eq!((budget.claim(64), budget.claim(64), budget.claim(64)), (64, 36, 0));
        assert!(budget.is_used_up());
        budget.give_back(30);
        assert_eq!((budget.claim(64), budget.claim(1)), (30, 0));
    }

    #[tokio::test]
    async fn whoever_waits_at_the_limit_hears_of_room() {
        let budget = ConnectionBudget::new(1);
        budget.wait_closed().await;
        assert_eq!(budget.claim(1), 1);
        tokio::join!(biased; budget.wait_closed(), async { budget.give_back(1) });
        assert!(!budget.is_used_up());
    }
}
