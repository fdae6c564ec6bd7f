//! Loads: what clients do to a server, at as little cost as we know how.
//!
//! Each runs in threads of this process until its time is over, and counts its own processor time by thread, so that the
//! server's and the client's are known apart.
//!
//! Invariant: an answer that is not the expected one, or a connection that fails, is an error of the sample.

pub(crate) mod churn;
pub(crate) mod datagrams;
pub(crate) mod frame;
pub(crate) mod http;
pub(crate) mod jetstream;
pub(crate) mod lines;
pub(crate) mod names;
pub(crate) mod otlp;
pub(crate) mod pace;
pub(crate) mod paced;
pub(crate) mod pipe;
pub(crate) mod posts;
pub(crate) mod session;
pub(crate) mod skewed;
pub(crate) mod source;
pub(crate) mod threads;
pub(crate) mod window;

use std::time::Duration;

use crate::latency::Latency;

/// What a load did and cost.
#[derive(Debug)]
pub(crate) struct Load {
    /// What was done, and answered where an answer is due.
    pub(crate) operations: u64,
    /// Payload of them; 0 where nobody asks for it.
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    /// Processor time of the load's threads.
    pub(crate) cpu: Duration,
    pub(crate) threads: usize,
    pub(crate) latency: Option<Latency>,
}

/// As many threads of load as the machine can use beside the server: one for two workers.
pub(crate) fn threads_beside(workers: usize) -> usize {
    workers.div_ceil(2).max(1)
}
