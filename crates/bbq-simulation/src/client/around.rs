//! The environment of a client during a step.

use std::sync::Arc;

use bbq_spool::SteppedTime;

use crate::history::History;
use crate::network::Network;
use crate::random::Random;
use crate::trace::Trace;

/// The parts of the world that a client uses in a step.
pub(crate) struct Around<'a> {
    pub(crate) network: &'a mut Network,
    pub(crate) history: &'a mut History,
    pub(crate) random: &'a mut Random,
    pub(crate) trace: &'a mut Trace,
    pub(crate) time: &'a Arc<SteppedTime>,
    /// Whether damage may have taken what a server knew of a stream, or a part of it.
    pub(crate) may_forget: bool,
    /// Whether a disk was set back or copied, so that a client may begin another stream.
    pub(crate) is_set_back: bool,
}
