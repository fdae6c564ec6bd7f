//! The options of a server and of its sinks.

use std::time::Duration;

use bbq_server::simulated::Rotation;

use crate::bug::Bug;

/// How a server is configured; it may change from one run to the next.
#[derive(Clone, Debug)]
pub(crate) struct ServerOptions {
    pub(crate) lanes: u32,
    pub(crate) segment_bytes: u64,
    pub(crate) bytes_max: u64,
    pub(crate) flush_interval: Duration,
    pub(crate) hot_bytes_max: usize,
    pub(crate) drops_oldest: bool,
    pub(crate) sinks: Vec<SinkOptions>,
    pub(crate) bug: Option<Bug>,
}

/// How a sink is configured; it may change from one run to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SinkOptions {
    pub(crate) rotation: Rotation,
    /// How much faster than others' its clock goes: time hardly passes in a run.
    pub(crate) clock_rate: u32,
}
