//! The environment of a crowd during a step.

use bbq_spool::SteppedTime;
use bbq_wire::StreamId;

use crate::history::History;
use crate::network::Network;
use crate::random::Random;
use crate::server::Server;
use crate::trace::Trace;

/// The parts of the world that the crowd uses in a step.
pub(crate) struct Around<'a> {
    pub(crate) server: &'a mut Option<Server>,
    pub(crate) network: &'a mut Network,
    pub(crate) history: &'a mut History,
    pub(crate) trace: &'a mut Trace,
    pub(crate) time: &'a SteppedTime,
}

/// A random name.
pub(super) fn new_stream(random: &mut Random) -> StreamId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&random.next().to_le_bytes());
    id[8..].copy_from_slice(&random.next().to_le_bytes());
    StreamId(id)
}
