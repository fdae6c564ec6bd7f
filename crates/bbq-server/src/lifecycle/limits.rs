//! How many connections the limit of file descriptors allows, after all other descriptors are reserved, and the plan of memory.

use bbq_config::Config;
use bbq_listen::raise_descriptor_limit;

use crate::error::StartError;

/// Descriptors that connections never get: standard ones, lock, event loops, admin and its clients.
const DESCRIPTORS_RESERVED: u64 = 48;
/// The socket for probes, and its clients.
const DESCRIPTORS_OF_PROBES: u64 = 1 + bbq_observe::PROBE_CONNECTIONS_MAX as u64;
/// Descriptors a lane may have open: segment, the next one, a directory while it is synced.
const DESCRIPTORS_PER_LANE: u64 = 4;
/// Descriptors a sink may have open: output, a segment of each lane (added by lane), a cursor and a directory.
const DESCRIPTORS_PER_SINK: u64 = 4;
/// The files that a reader may have open at a time, an eventfd and inotify. Where that is over half of the limit, readers get half: one
/// that finds no descriptor tries again later.
const DESCRIPTORS_PER_READER: u64 = 1024 + 8;
/// A worker's epoll, eventfd and timer, and the set of its quiet sessions, with some to spare.
const DESCRIPTORS_PER_WORKER: u64 = 8;
/// A worker's socket of a listener, the epoll set that it waits for, and the set of its connections.
const DESCRIPTORS_PER_LISTENER: u64 = 3;
/// The fewest connections that are worth starting for.
const CONNECTIONS_MIN: u64 = 8;

/// How many connections may be open.
///
/// # Errors
/// The limit leaves too few.
pub(crate) fn connections_max(config: &Config) -> Result<u64, StartError> {
    let limit = raise_descriptor_limit().soft;
    let (lanes, sinks) = (config.workers as u64, config.sinks.len() as u64);
    let reserved = DESCRIPTORS_RESERVED
        + config.probe.map_or(0, |_| DESCRIPTORS_OF_PROBES)
        + lanes * (DESCRIPTORS_PER_LANE + DESCRIPTORS_PER_WORKER + sinks)
        + sinks * DESCRIPTORS_PER_SINK
        + (config.read.len() as u64 * DESCRIPTORS_PER_READER).min(limit / 2)
        + (config.listen.len() as u64) * lanes * DESCRIPTORS_PER_LISTENER;
    match limit.saturating_sub(reserved) {
        0..CONNECTIONS_MIN => Err(StartError::Descriptors { limit, needed: reserved + CONNECTIONS_MIN }),
        // Without a limit of memory that is small, this is never the smaller one.
        left => Ok(left.min(config.memory.connections_max)),
    }
}
