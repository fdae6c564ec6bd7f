//! Which connections of a set are idle for longest.

/// Closed for one call of a worker for room: as many as it accepts at once.
pub(crate) const EVICTIONS_MAX: usize = bbq_listen::ACCEPTS_PER_TURN_MAX;

/// A connection that could be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    /// Seconds; see [`crate::worker::session::rounds::ActiveSessions::now`].
    pub(crate) idle_since: u32,
    /// In its set.
    pub(crate) place: usize,
}

/// The `EVICTIONS_MAX` that are idle for longest.
pub(crate) fn longest_idle(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    if candidates.len() > EVICTIONS_MAX {
        candidates.select_nth_unstable(EVICTIONS_MAX);
        candidates.truncate(EVICTIONS_MAX);
    }
    candidates
}
