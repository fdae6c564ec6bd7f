//! Sizes of the spool, with their reasons.

use std::time::Duration;

use bbq_wire::limits::{BATCH_BODY_BYTES_MAX, BATCH_HEADER_BYTES, BATCH_RECORDS_MAX};

use crate::format::{ENVELOPE_BYTES, GROUP_FRAME_BYTES, SEGMENT_HEADER_BYTES_MAX};

/// The default size of a segment. It is so large that files are rarely created, and so small that space is freed soon after the
/// sinks have passed.
pub const SEGMENT_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;

/// The smallest segment that may be configured. A larger group gets a segment of its own size.
pub const SEGMENT_BYTES_MIN: u64 = 64 * 1024;

/// The largest segment that may be configured: recovery and a reader that skips damage hold one in memory.
pub const SEGMENT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Groups begin at multiples of this size, and are written in whole blocks.
pub const BLOCK_BYTES: usize = bbq_storage::BLOCK_BYTES;

/// Positions and record numbers stay below this, so that no sum of two overflows: at 100 GB/s a lane lasts a year.
pub const POSITION_MAX: u64 = 1 << 62;

/// Recovered positions stay below half of [`POSITION_MAX`], so that later positions are valid, whatever a file claims.
pub const RECOVERED_MAX: u64 = POSITION_MAX / 2;

/// A segment beyond this position belongs to a lane only if other segments or cursors of the lane are near: a forged name must
/// not move a lane to positions at which its segments are not recovered. At 100 GB/s a lane gets here after four months.
pub const SEGMENT_START_LONE_MAX: u64 = RECOVERED_MAX / 2;

/// The gap after a segment whose length is unknown. There are plenty of positions.
pub const UNKNOWN_SEGMENT_BYTES: u64 = 1 << 40;

/// The most lanes. A directory with a higher number is ignored.
pub const LANES_MAX: u32 = 4096;

/// The default size of all segments.
pub const SPOOL_BYTES_DEFAULT: u64 = 10 * 1024 * 1024 * 1024;

/// A spool holds this many segments per lane at least: one that is written, and one that waits for its readers.
pub const SEGMENTS_PER_LANE_MIN: u64 = 2;

/// A lane refuses appends beyond this much memory, or beyond the size of a segment if that is less. The memory holds several of
/// the largest groups, so that intake continues through a slow sync. It is limited in case the disk hangs.
pub const LANE_BUFFER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A group of this size is written without waiting for more: at 1 MiB a sync costs little compared with the copy.
pub const GROUP_BYTES_TARGET: usize = 1024 * 1024;

/// How long messages that no client waits for may collect.
pub const FLUSH_INTERVAL_DEFAULT: Duration = Duration::from_millis(10);

/// Bytes that a lane leaves free on the disk, or a segment if that is less: the sinks that empty a full spool need room for their
/// cursors and the checkpoint of streams (about 16 MiB with the most streams).
pub const DISK_RESERVE_BYTES: u64 = 16 * 1024 * 1024;

/// How often a failed read is tried before the unreadable blocks are skipped; the caller pauses in between. A temporary fault of
/// the disk costs nothing, and a lasting one does not stop the queue.
pub const READ_TRIES_MAX: u32 = bbq_storage::READ_TRIES_MAX;

/// How often recovery tries to make the newest group durable before the start fails.
pub const REWRITE_TRIES_MAX: u32 = 3;

/// If the length of a torn tail is unknown, at most this many of its bytes are kept.
pub const TORN_BYTES_MAX: usize = 1024 * 1024;

/// The most torn tails that are kept for a lane, so that they do not fill the disk of a server that is killed often.
pub const TORN_KEPT_MAX: usize = 8;

/// The interval at which a writer without space tries again; deletions wake it at once.
pub const SPACE_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// How often the writer of a closed lane checks whether old messages were deleted for its last group: two seconds in all, enough
/// to write a checkpoint of streams and delete a file. A stop does not wait longer.
pub const CLOSED_SPACE_TRIES_MAX: u32 = 10;

/// After a group of this size, the next one gathers a little longer although clients wait: under such a load a small sync costs
/// more than the delay. After a smaller group, the next one gathers until as many clients wait as for that group.
pub const GATHER_BYTES_MIN: usize = 64 * 1024;

/// A gathering group is written when nothing was appended for this long...
pub const GATHER_STEP: Duration = Duration::from_micros(150);

/// ...and at the latest after this.
pub const GATHER_TIME_MAX: Duration = Duration::from_millis(1);

/// The default memory for the newest groups of a lane, for readers that keep up, and for spare buffers: several of the largest
/// usual groups.
pub const HOT_BYTES_DEFAULT: usize = 16 * 1024 * 1024;

/// The most groups of a lane in memory. Each has a buffer for the largest group, of which only the used pages take memory.
pub const HOT_GROUPS_MAX: usize = 16;

/// Spare segments of a lane: the next one, and another while the sinks are a segment behind.
pub const SPARES_PER_LANE: usize = 2;

/// Bytes of one read, unless a group is larger. Usually this is enough for a whole group of a busy lane.
pub const READ_BYTES_TARGET: usize = GROUP_BYTES_TARGET + 512 * 1024;

/// The most sources in a segment header. Further former sources are counted as one source.
pub const SOURCES_MAX: usize = 1024;

/// The most bytes of one entry.
pub const ENTRY_BYTES_MAX: usize = ENVELOPE_BYTES + BATCH_HEADER_BYTES + BATCH_BODY_BYTES_MAX as usize;

/// The most bytes of one group. In version 1 of the format, a buffer that was one byte short of full still took the largest
/// entry.
pub const GROUP_BYTES_MAX: usize = GROUP_FRAME_BYTES + LANE_BUFFER_BYTES_MAX + ENTRY_BYTES_MAX + BLOCK_BYTES;

const _: () = assert!(GROUP_BYTES_MAX < u32::MAX as usize);
const _: () = assert!(GROUP_BYTES_MAX as u64 + (SEGMENT_HEADER_BYTES_MAX as u64) < SEGMENT_BYTES_MAX);
// A record takes at least one byte of an unpacked body, and LZ4 unpacks one byte to at most 255 bytes. So a group's records fit
// 32 bits.
const _: () = assert!(LANE_BUFFER_BYTES_MAX * 255 + (BATCH_RECORDS_MAX as usize) < u32::MAX as usize);
const _: () = assert!(GROUP_BYTES_TARGET <= LANE_BUFFER_BYTES_MAX);
