//! Which connections of a set are idle, and so can be closed for new ones.

use bbq_stored::Identity;

use crate::access::Claim;

/// Maximum connections closed for one request for room: as many as a worker accepts at once.
pub(crate) const EVICTIONS_MAX: usize = bbq_listen::ACCEPTS_PER_BATCH_MAX;

/// What a connection is for a choice of whom to close. It can be closed if it has been idle since `latest` or earlier, in seconds; see
/// [`crate::worker::session::rounds::ActiveSessions::now`].
pub(crate) fn claim(identity: Identity, idle_since: u32, latest: u32, key: usize) -> Claim<usize> {
    let can_go = idle_since <= latest;
    Claim { identity, size: 1, since: idle_since.into(), key: can_go.then_some(key) }
}
