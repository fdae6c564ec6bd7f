//! Sizes of the spool, with their reasons.

use std::time::Duration;

use bbq_wire::limits::{BATCH_BODY_BYTES_MAX, BATCH_HEADER_BYTES, BATCH_RECORDS_MAX};

use crate::format::{ENVELOPE_BYTES, GROUP_FRAME_BYTES, SEGMENT_HEADER_BYTES_MAX};

/// Bytes of one segment unless configured: large enough that creating files is rare, small enough that space comes back
/// soon after the sinks have passed.
pub const SEGMENT_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;

/// The smallest segment that may be configured. A larger group gets a segment of its own size.
pub const SEGMENT_BYTES_MIN: u64 = 64 * 1024;

/// The largest segment that may be configured: recovery and a reader behind damage hold one in memory.
pub const SEGMENT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Groups begin at multiples of it, and are written whole.
pub const BLOCK_BYTES: usize = bbq_storage::BLOCK_BYTES;

/// Positions and record numbers stay below, so that no sum of two overflows: at 100 GB/s, a lane lasts a year.
pub const POSITION_MAX: u64 = 1 << 62;

/// What is recovered is held to half of it, so that whatever a file claims, what comes next can be read.
pub const RECOVERED_MAX: u64 = POSITION_MAX / 2;

/// A segment that begins behind it is only a lane's if something else of the lane is near: a name that somebody forged must not
/// make a lane go on where what it writes is not recovered. A lane that is written at 100 GB/s comes here after four months.
pub const SEGMENT_START_LONE_MAX: u64 = RECOVERED_MAX / 2;

/// How far the next segment keeps from one whose length cannot be told. Positions are plenty.
pub const UNKNOWN_SEGMENT_BYTES: u64 = 1 << 40;

/// Lanes at most; a directory with a higher number is none of ours.
pub const LANES_MAX: u32 = 4096;

/// Bytes of all segments unless configured.
pub const SPOOL_BYTES_DEFAULT: u64 = 10 * 1024 * 1024 * 1024;

/// A spool holds this many segments per lane at least: one that is written, and one that waits for its readers.
pub const SEGMENTS_PER_LANE_MIN: u64 = 2;

/// What a lane collects in memory before appends are refused, or what a segment holds if that is less: several of the largest groups a disk syncs at once, so that
/// intake continues through a slow sync, and a bound on what a dead disk makes a worker hold.
pub const LANE_BUFFER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A group of this size is written without waiting for more: at 1 MiB the cost of a sync vanishes beside the copy.
pub const GROUP_BYTES_TARGET: usize = 1024 * 1024;

/// How long messages that nobody waits for may collect before they are written.
pub const FLUSH_INTERVAL_DEFAULT: Duration = Duration::from_millis(10);

/// What a lane leaves free on the disk, or a segment if that is less: a spool that fills the disk alone is emptied by
/// sinks, and those need room for their cursors and the checkpoint of streams (some 16 MiB with the most streams).
pub const DISK_RESERVE_BYTES: u64 = 16 * 1024 * 1024;

/// So often a read that fails is tried, with whatever pause the reader's owner makes, before the blocks that cannot be read
/// are passed over: a passing fault of the disk costs nothing, a lasting one does not stop the queue.
pub const READ_TRIES_MAX: u32 = bbq_storage::READ_TRIES_MAX;

/// So often recovery tries to make the newest group durable before the start fails: each try makes its pages dirty again.
pub const REWRITE_TRIES_MAX: u32 = 3;

/// What is kept of a torn end for a person to look at, if its length is not known.
pub const TORN_BYTES_MAX: usize = 1024 * 1024;

/// Torn ends that are kept of a lane: a server that is killed again and again must not fill its disk with them.
pub const TORN_KEPT_MAX: usize = 8;

/// How often a writer that found no space looks again; deletions wake it at once.
pub const SPACE_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// So often the writer of a closed lane looks whether old messages were deleted for what it has in hand: two seconds, in which
/// a checkpoint of streams is written and a file deleted. A stop does not wait for a disk that does neither.
pub const CLOSED_SPACE_TRIES_MAX: u32 = 10;

/// A group that follows one of this size gathers a little longer although somebody waits: under such a load a sync of few
/// bytes costs everybody more than the wait does. Behind a smaller one it gathers until as many wait for it.
pub const GATHER_BYTES_MIN: usize = 64 * 1024;

/// A gathering group is written when nothing came for so long...
pub const GATHER_STEP: Duration = Duration::from_micros(150);

/// ...and at the latest after this.
pub const GATHER_TIME_MAX: Duration = Duration::from_millis(1);

/// Newest groups of a lane that stay in memory, unless configured, for readers that keep up, and buffers for the next ones:
/// several of those that a fast disk takes at once.
pub const HOT_BYTES_DEFAULT: usize = 16 * 1024 * 1024;

/// Groups of a lane that stay in memory at most: each has a buffer for the largest group, of which it uses what it needs.
pub const HOT_GROUPS_MAX: usize = 16;

/// Passed segments kept per lane to be written again: one that is next, and one while the sinks are a segment behind.
pub const SPARES_PER_LANE: usize = 2;

/// What a reader takes from disk at once, if no group is larger: one of those that a busy lane writes, mostly whole.
pub const READ_BYTES_TARGET: usize = GROUP_BYTES_TARGET + 512 * 1024;

/// Sources that a segment header names; beyond it, former ones are folded into one.
pub const SOURCES_MAX: usize = 1024;

/// Bytes of one entry at most.
pub const ENTRY_BYTES_MAX: usize = ENVELOPE_BYTES + BATCH_HEADER_BYTES + BATCH_BODY_BYTES_MAX as usize;

/// Bytes of one group at most. Version 1 of the format took the largest entry into a buffer that was one byte short of full.
pub const GROUP_BYTES_MAX: usize = GROUP_FRAME_BYTES + LANE_BUFFER_BYTES_MAX + ENTRY_BYTES_MAX + BLOCK_BYTES;

const _: () = assert!(GROUP_BYTES_MAX < u32::MAX as usize);
const _: () = assert!(GROUP_BYTES_MAX as u64 + (SEGMENT_HEADER_BYTES_MAX as u64) < SEGMENT_BYTES_MAX);
// A record takes a byte of a body at least, and LZ4 makes at most 255 bytes of one: a group's records fit 32 bits.
const _: () = assert!(LANE_BUFFER_BYTES_MAX * 255 + (BATCH_RECORDS_MAX as usize) < u32::MAX as usize);
const _: () = assert!(GROUP_BYTES_TARGET <= LANE_BUFFER_BYTES_MAX);
