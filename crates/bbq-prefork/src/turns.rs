//! Who gets the next connection that the master hands to a child.

use std::sync::atomic::Ordering::Relaxed;

use bbq_listen::{Distribution, HandoffRule};

use crate::shared::Shared;

#[derive(Debug)]
pub(crate) struct Turns {
    rule: HandoffRule,
    /// The worker that got the last connection.
    last: usize,
}

impl Turns {
    /// By the rule of `handoff`; each in turn with the other distributions, where only what waits for a child is handed to others.
    pub(crate) fn new(distribution: &Distribution, children: usize) -> Self {
        let rule = match distribution {
            Distribution::Handoff(rule) => *rule,
            _ => HandoffRule::default(),
        };
        Self { rule, last: children.saturating_sub(1) }
    }

    /// The child that gets a new connection.
    pub(crate) fn next(&mut self, shared: &Shared) -> usize {
        // If none comes around, one that has a process; without any process, whoever is started next.
        let present = || self.in_turn(shared).find(|worker| !shared.is_absent(*worker));
        let next = self.find_able(shared).or_else(present);
        self.last = next.unwrap_or((self.last + 1) % shared.epolls.len());
        self.last
    }

    /// Likewise, of those that come around; `None` if none does.
    pub(crate) fn next_able(&mut self, shared: &Shared) -> Option<usize> {
        let next = self.find_able(shared)?;
        self.last = next;
        Some(next)
    }

    fn find_able(&self, shared: &Shared) -> Option<usize> {
        let mut able =
            self.in_turn(shared).filter(|worker| !shared.is_absent(*worker) && !shared.is_stalled(*worker));
        match self.rule {
            HandoffRule::Fewest => {
                able.min_by_key(|worker| shared.ledger.child(*worker).open().load(Relaxed))
            }
            _ => able.next(),
        }
    }

    fn in_turn(&self, shared: &Shared) -> impl Iterator<Item = usize> {
        let (last, children) = (self.last, shared.epolls.len());
        (1..=children).map(move |step| (last + step) % children)
    }
}
