//! Tells of sockets of other programs at the addresses of the groups that a stall monitor watches, once each.
//!
//! Where netlink is blocked nothing is told.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ForeignMember;
use crate::diagnose::foreign::foreign_members;
use crate::sockets::group::Inner;

/// Between two looks: each goes through all UDP sockets of the machine if a group is of udp.
pub(crate) const FOREIGN_LOOK: Duration = Duration::from_secs(2);

/// Looks for foreign members, and whom it tells.
pub(crate) struct ForeignWatch {
    tell: Box<dyn FnMut(ForeignMember) + Send>,
    /// The members of the last look.
    known: Vec<ForeignMember>,
    looked: Option<Instant>,
}

impl fmt::Debug for ForeignWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignWatch").field("known", &self.known).finish_non_exhaustive()
    }
}

impl ForeignWatch {
    pub(crate) fn new(tell: impl FnMut(ForeignMember) + Send + 'static) -> Self {
        Self { tell: Box::new(tell), known: Vec::new(), looked: None }
    }

    /// Whether it is time to look again.
    pub(crate) fn is_due(&self) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= FOREIGN_LOOK)
    }

    pub(crate) fn look(&mut self, groups: &[Arc<Inner>]) {
        self.looked = Some(Instant::now());
        let mut members = Vec::new();
        for group in groups {
            // The sockets of a group that is about to grow are not its own yet.
            let _no_resize = group.removed();
            // Where netlink is blocked, nothing is ever known. After one query that fails, what was told is not told again.
            let Ok(found) = foreign_members(&group.address, || group.dispatch.sockets()) else { return };
            members.extend(found);
        }
        for member in &members {
            if !self.known.contains(member) {
                (self.tell)(*member);
            }
        }
        self.known = members;
    }
}
