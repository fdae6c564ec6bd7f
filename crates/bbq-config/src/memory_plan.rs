//! All budgets of memory, in one place, so that their sum is computed: it stays below [`SHARE_PERCENT`] of what the process may use. The
//! defaults follow from it. The rest is for what no budget has: page cache, buffers of sockets in the kernel, and what the allocator
//! cannot give back.
//!
//! Not here: how a budget is kept. The code that uses it does that.
//!
//! Invariant: with 4 GiB and two workers, each budget is as large as without a limit.

use bbq_spool::ShownBytes;
use bbq_spool::limits::{
    BLOCK_BYTES, ENTRY_BYTES_MAX, HOT_BYTES_DEFAULT, LANE_BUFFER_BYTES_MAX, READ_BYTES_TARGET,
};
use bbq_stored::STREAMS_MAX;
use serde::{Deserialize, Serialize};

use crate::memory_limit::MemoryLimit;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// How much of the memory that the process may use all budgets may have together.
const SHARE_PERCENT: u64 = 70;
/// The program itself: heap after the start, stacks, certificates, control, log.
const PROGRAM_BYTES: u64 = 5 * MIB;
/// The admin: history, connections, viewers of the tail.
const ADMIN_BYTES: u64 = 3 * MIB;
/// A worker without connections: the read buffer, the buffer for compressed batches, the event loop, and the heap of its thread.
const WORKER_BYTES: u64 = 2 * MIB;
/// What a worker has for each listener: a batch that collects.
const LISTENER_BYTES: u64 = 256 * KIB;
/// A connection that is quiet: its state here and in the kernel.
const CONNECTION_QUIET_BYTES: u64 = 4 * KIB;
/// A connection that is busy: the buffers of HTTP or TLS as well. With little memory, each is taken for a busy one.
const CONNECTION_BUSY_BYTES: u64 = 32 * KIB;
/// The fewest connections for which memory is planned.
const CONNECTIONS_MIN: u64 = 64;
/// A sink beside its window: formatted output, and the first of a catch-up.
const SINK_BYTES: u64 = 3 * MIB;
/// A reader of files: batches on their way to a lane, and its buffer, with the longest line. Files that wait take less than 1 KiB each.
const READER_BYTES: u64 = 8 * MIB + 4 * MIB;
/// The most that a sink may have submitted and not settled: as much as the largest window of any kind.
const SINK_WINDOW_BYTES_MAX: u64 = 64 * MIB;
const SINK_WINDOW_BYTES_MIN: u64 = MIB;
/// The smallest buffer of a lane, and the smallest memory for its newest groups: a usual batch, twice.
const LANE_BUFFER_BYTES_MIN: u64 = 512 * KIB;
/// The fewest streams that the table has room for.
const STREAMS_MIN: u64 = 4096;
/// What the table has for each of the streams that it keeps: twice 275 bytes, as between two checkpoints there may be twice as many, and the
/// rest while a checkpoint of all of them is made (measured with 262,144, of 267 bytes each: 1,203).
const STREAM_BYTES: u64 = 1248;
/// The largest batch in a lane.
const BATCH_BYTES_MAX: u64 = ENTRY_BYTES_MAX as u64;
/// Memory of unfinished batches and messages, of all workers, if there is enough: thirty of the largest batches, or a thousand of the
/// usual size.
const UNFINISHED_BYTES_DEFAULT: u64 = 512 * MIB;
/// The same for each worker: the largest batch in a buffer that grew by doubling, and as much again for all others.
const UNFINISHED_BYTES_PER_WORKER_DEFAULT: u64 = 64 * MIB;
/// The least that can be set: three of the usual batches, each with a message of 1 MiB.
pub(super) const UNFINISHED_BYTES_PER_WORKER_MIN: u64 = 4 * MIB;
/// Memory that a worker needs at least; more workers are not begun by default.
const PER_WORKER_BYTES_MIN: u64 = 32 * MIB;
/// With more memory than this for all budgets, connections have the buffers that are best for speed.
const PLENTY_BYTES: u64 = 512 * MIB;

/// What the configuration asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    pub(super) workers: u64,
    pub(super) listeners: u64,
    /// Memory of all listeners for messages whose chunks are not all there.
    pub(super) chunks_bytes: u64,
    pub(super) readers: u64,
    pub(super) sinks: u64,
    /// Memory that kinds of sinks take in any case.
    pub(super) sinks_bytes: u64,
    pub(super) has_admin: bool,
    /// The most descriptors that the process may have.
    pub(super) descriptors: u64,
    /// If it is configured.
    pub(super) unfinished_bytes_max: Option<u64>,
}

/// What everything in the server may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// How much memory the process may use; `None` if that is unknown.
    pub limit: Option<MemoryLimit>,
    /// Everything that takes memory.
    pub budgets: Vec<Budget>,
    /// Of unfinished batches and messages.
    pub unfinished_bytes_max: u64,
    /// Of the group that a lane collects.
    pub lane_buffer_bytes_max: usize,
    /// Of the newest groups of a lane.
    pub hot_bytes_max: usize,
    /// Of what a sink may have submitted and not settled.
    pub sink_window_bytes: u64,
    /// More connections are not accepted.
    pub connections_max: u64,
    /// The table of streams forgets those beyond.
    pub streams_max: usize,
    /// Connections get small buffers.
    pub is_small: bool,
    /// Something is smaller than it would be without a limit.
    pub is_reduced: bool,
}

/// What one part of the server may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// The part.
    pub what: String,
    /// Its memory.
    pub bytes: u64,
}

/// The workers that memory suffices for.
pub(super) fn workers_max(limit: Option<&MemoryLimit>) -> u64 {
    (allowed(limit) / PER_WORKER_BYTES_MIN).max(1)
}

fn allowed(limit: Option<&MemoryLimit>) -> u64 {
    limit.map_or(u64::MAX, |limit| limit.bytes / 100 * SHARE_PERCENT)
}

impl MemoryPlan {
    pub(super) fn new(limit: Option<MemoryLimit>, demand: Demand) -> MemoryPlan {
        let (workers, sinks) = (demand.workers.max(1), demand.sinks);
        let allowed = allowed(limit.as_ref());
        let program = PROGRAM_BYTES + if demand.has_admin { ADMIN_BYTES } else { 0 };
        let of_workers = workers * (WORKER_BYTES + demand.listeners * LISTENER_BYTES);
        let readers = demand.readers * READER_BYTES;
        let reads = workers * READ_BYTES_TARGET as u64;
        let sinks_least = demand.sinks_bytes + sinks * (SINK_BYTES + reads);
        // Each takes a part of what is left, up to what it can use.
        let rest = allowed.saturating_sub(program + of_workers + demand.chunks_bytes + readers + sinks_least);
        let streams_max = (rest / 8 / STREAM_BYTES).clamp(STREAMS_MIN, STREAMS_MAX as u64);
        let streams = streams_max * STREAM_BYTES;
        let is_small = allowed < PLENTY_BYTES;
        let connections_max =
            if is_small { (rest / 6 / CONNECTION_BUSY_BYTES).max(CONNECTIONS_MIN) } else { u64::MAX };
        let connections = if is_small {
            connections_max.min(demand.descriptors) * CONNECTION_BUSY_BYTES
        } else {
            demand.descriptors.saturating_mul(CONNECTION_QUIET_BYTES).min(rest / 8)
        };
        let sink_window_bytes = (rest / 8 / sinks.max(1)).clamp(SINK_WINDOW_BYTES_MIN, SINK_WINDOW_BYTES_MAX);
        let of_lane = |bytes_max: usize| {
            let bytes = (rest / 16 / workers).clamp(LANE_BUFFER_BYTES_MIN, bytes_max as u64);
            bytes - bytes % BLOCK_BYTES as u64
        };
        let (lane_buffer, hot) = (of_lane(LANE_BUFFER_BYTES_MAX), of_lane(HOT_BYTES_DEFAULT));
        let sinks_bytes = sinks_least + sinks * (sink_window_bytes + lane_buffer);
        let others = streams + connections + sinks * (sink_window_bytes + lane_buffer) + workers * hot;
        let share = rest.saturating_sub(others) / workers;
        // A batch that was unfinished may then be in both buffers of its lane.
        let unfinished = if share >= 3 * BATCH_BYTES_MAX { share - 2 * BATCH_BYTES_MAX } else { share / 3 };
        let unfinished = (unfinished - unfinished % MIB).max(UNFINISHED_BYTES_PER_WORKER_MIN);
        let most = UNFINISHED_BYTES_DEFAULT.max(UNFINISHED_BYTES_PER_WORKER_DEFAULT * workers);
        let unfinished_bytes_max =
            demand.unfinished_bytes_max.unwrap_or_else(|| most.min(unfinished.saturating_mul(workers)));
        let batch = BATCH_BYTES_MAX.min(unfinished_bytes_max / workers);
        let lanes = workers * (hot + 2 * lane_buffer.max(batch));
        let budgets = [
            ("the program and the admin", program),
            ("workers", of_workers),
            ("connections", connections),
            ("chunks of messages of GELF", demand.chunks_bytes),
            ("unfinished batches and messages", unfinished_bytes_max),
            ("lanes", lanes),
            ("readers of files", readers),
            ("sinks", sinks_bytes),
            ("the table of streams", streams),
        ];
        let is_reduced = limit.is_some() && {
            let free = MemoryPlan::new(None, demand);
            free.bytes() > budgets.iter().map(|(_, bytes)| bytes).sum()
        };
        MemoryPlan {
            limit,
            budgets: budgets
                .into_iter()
                .filter(|(_, bytes)| *bytes > 0)
                .map(|(what, bytes)| Budget { what: what.to_owned(), bytes })
                .collect(),
            unfinished_bytes_max,
            lane_buffer_bytes_max: usize::try_from(lane_buffer).unwrap_or(LANE_BUFFER_BYTES_MAX),
            hot_bytes_max: usize::try_from(hot).unwrap_or(HOT_BYTES_DEFAULT),
            sink_window_bytes,
            connections_max,
            streams_max: usize::try_from(streams_max).unwrap_or(usize::MAX),
            is_small,
            is_reduced,
        }
    }

    /// All budgets together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.budgets.iter().fold(0, |sum, budget| sum.saturating_add(budget.bytes))
    }

    /// What all budgets may have together.
    #[must_use]
    pub fn allowed(&self) -> u64 {
        allowed(self.limit.as_ref())
    }

    /// What is too much, with the numbers and the remedy; `None` if everything fits.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let limit = self.limit.as_ref().filter(|_| self.bytes() > self.allowed())?;
        let budgets: Vec<String> = self
            .budgets
            .iter()
            .map(|budget| format!("{} {}", budget.what, ShownBytes(budget.bytes)))
            .collect();
        Some(format!(
            "all memory budgets together are {} and should not be over {} ({SHARE_PERCENT} % of {}, {}): {}; under full load the kernel \
             may kill the server: raise the limit, lower unfinished_bytes_max, or configure fewer workers or sinks",
            ShownBytes(self.bytes()),
            ShownBytes(self.allowed()),
            ShownBytes(limit.bytes),
            limit.from,
            budgets.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mib: u64, demand: Demand) -> MemoryPlan {
        MemoryPlan::new(Some(MemoryLimit { bytes: mib * MIB, from: "memory.max".to_owned() }), demand)
    }

    /// The default configuration.
    fn defaults(mib: u64, processors: u64) -> Demand {
        let limit = MemoryLimit { bytes: mib * MIB, from: String::new() };
        let workers = processors.min(workers_max(Some(&limit)));
        Demand { workers, listeners: 5, sinks: 1, has_admin: true, descriptors: 20_000, ..Demand::default() }
    }

    #[test]
    fn the_defaults_fit_from_64_mib_on_however_many_processors_there_are() {
        for mib in [64, 65, 80, 100, 128, 200, 256, 512, 1024, 2048, 4096, 24_000, 1 << 20] {
            for processors in [1, 2, 3, 8, 64, 256] {
                let plan = of(mib, defaults(mib, processors));
                assert_eq!(plan.problem(), None, "{mib} MiB, {processors} processors: {plan:?}");
                assert!(plan.unfinished_bytes_max > 0 && plan.connections_max >= CONNECTIONS_MIN);
                assert!(plan.is_reduced || mib > 2000);
            }
        }
    }

    #[test]
    fn with_much_memory_nothing_is_smaller_than_it_would_be_without_a_limit() {
        for plan in [of(4096, defaults(4096, 2)), MemoryPlan::new(None, defaults(1 << 20, 2))] {
            assert_eq!(plan.unfinished_bytes_max, UNFINISHED_BYTES_DEFAULT);
            assert_eq!(plan.lane_buffer_bytes_max, LANE_BUFFER_BYTES_MAX);
            assert_eq!(plan.hot_bytes_max, HOT_BYTES_DEFAULT);
            assert_eq!(plan.sink_window_bytes, SINK_WINDOW_BYTES_MAX);
            assert_eq!(plan.streams_max, STREAMS_MAX);
            assert!(!plan.is_small && !plan.is_reduced && plan.connections_max > 20_000);
        }
        let plan = MemoryPlan::new(None, defaults(1 << 30, 256));
        assert_eq!(plan.unfinished_bytes_max, 256 * UNFINISHED_BYTES_PER_WORKER_DEFAULT);
    }

    #[test]
    fn what_is_configured_and_too_much_is_told_with_its_numbers() {
        let demand = Demand { unfinished_bytes_max: Some(512 * MIB), ..defaults(256, 2) };
        let problem = of(256, demand).problem().unwrap();
        for part in [
            "70 % of 256.00 MiB",
            "memory.max",
            "unfinished batches and messages 512.00 MiB",
            "lower unfinished_bytes_max",
        ] {
            assert!(problem.contains(part), "{problem}");
        }
    }
}
