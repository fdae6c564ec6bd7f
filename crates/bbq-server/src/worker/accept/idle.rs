//! Which connections of a set have been idle for longest.

/// Maximum connections closed for one request for room: as many as a worker accepts at once.
pub(crate) const EVICTIONS_MAX: usize = bbq_listen::ACCEPTS_PER_BATCH_MAX;

/// A connection that could be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    /// Since when, in seconds; see [`crate::worker::session::rounds::ActiveSessions::now`].
    pub(crate) idle_since: u32,
    /// The key in its set.
    pub(crate) key: usize,
}

/// Keeps the `EVICTIONS_MAX` candidates that have been idle for longest.
pub(crate) fn longest_idle(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    if candidates.len() > EVICTIONS_MAX {
        candidates.select_nth_unstable(EVICTIONS_MAX);
        candidates.truncate(EVICTIONS_MAX);
    }
    candidates
}
