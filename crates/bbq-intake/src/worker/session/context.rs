//! Everything a step of a session works with.

use bbq_spool::Lane;
use bbq_stored::{LaneState, Lanes, ListenerLedger, Replicas, Retention, Streams};
use bbq_wire::Peer;
use bbq_wire::batch::BatchLimits;

use super::replies::{Connection, Replies};
use crate::access::ServedTokens;
use crate::worker::scratch::Scratch;
use crate::worker::undurable::Undurable;
use crate::worker::waiters::Waiters;

/// Most groups of a session that are durable here and not yet at the next servers; the sink that passes them on has fewer on their way.
const REPLICATING_MAX: usize = 1024;

/// What a worker lends to one of its sessions for a step.
pub struct SessionContext<'a, C> {
    /// The worker's own lane.
    pub lane: &'a Lane,
    /// All lanes that have a worker, by number.
    pub lanes: &'a [Lane],
    /// All streams.
    pub streams: &'a Streams,
    /// How far every sink has committed.
    pub retention: &'a Retention,
    /// How far the next servers are; `None` if the server passes nothing on.
    pub replicas: Option<&'a Replicas>,
    /// The worker's batches that wait for the disk.
    pub waiters: &'a Waiters<C>,
    /// The worker's records that wait for the disk.
    pub undurable: &'a Undurable,
    /// For compressed bodies.
    pub scratch: &'a Scratch,
    /// The listener's ledger.
    pub ledger: &'a ListenerLedger,
    /// The index of the listener in the configuration.
    pub source: u16,
    /// What the listener allows in a batch.
    pub limits: BatchLimits,
    /// The tokens of the listener; `None` if the listener asks for no token.
    pub tokens: Option<&'a ServedTokens>,
    /// The client's address.
    pub peer: Peer,
    /// The wall clock: nanoseconds since 1970-01-01 UTC.
    pub now_ns: u64,
}

impl<C: Connection> SessionContext<'_, C> {
    /// The lanes, for a stream of this session.
    pub(crate) fn stream_lanes(&self) -> Lanes<impl Fn(u32) -> u64, impl Fn(u32) -> LaneState> {
        let passed = |lane| self.retention.passed(lane);
        Lanes::new(self.lane.index(), passed, |lane| LaneState::of(self.lanes, lane))
    }

    /// Whether a batch of `batch_bytes` has to wait, for room in the lane, because the session has used its share, or because the
    /// next servers lack too much of it. `false` if
    /// the lane failed.
    pub(crate) fn is_full(&self, replies: &Replies<C>, batch_bytes: usize) -> bool {
        (!self.lane.has_room_for(batch_bytes)
            || self.waiters.is_over_share(replies, batch_bytes)
            || replies.replicating() >= REPLICATING_MAX)
            && self.lane.failure().is_none()
    }
}
