//! Every size that the wire and the disk may hold, with its reason. Related ones are held together by assertions.

/// Bytes of the fixed batch header: one cache line.
pub const BATCH_HEADER_BYTES: usize = 64;

/// The largest body of one batch, compressed or not. Bounds what one connection can make the server hold, and what a
/// reader must have in memory at once.
pub const BATCH_BODY_BYTES_MAX: u32 = 16 * 1024 * 1024;

/// The most records in one batch: keeps a flood of empty records from turning 16 MiB into 16 million deliveries
/// between two looks at the clock.
pub const BATCH_RECORDS_MAX: u32 = 1 << 20;

/// The largest message that any configuration may allow.
pub const MESSAGE_BYTES_MAX: u32 = 8 * 1024 * 1024;

/// The largest message unless configured: rsyslog's default is 8 KiB and users hit it; stack traces and JSON documents
/// fit in 1 MiB, and ten thousand of them half received still fit in a server's memory budget by being counted.
pub const MESSAGE_BYTES_DEFAULT: u32 = 1024 * 1024;

/// What a builder should reach before it is sent on: large enough that the header, the checksum call and the system
/// calls vanish per message, small enough to stay in a core's second-level cache.
pub const BATCH_BODY_BYTES_TARGET: usize = 256 * 1024;

/// Bytes of one encoded peer at most: kind, IPv6 address, port.
pub const PEER_BYTES_MAX: usize = 1 + 16 + 2;

/// Bytes of the fixed header of a control frame (hello, welcome, ack, refusal).
pub const CONTROL_HEADER_BYTES: usize = 16;

/// The largest payload of a control frame. The largest of today is a refusal with 1 KiB of text; the rest is room for
/// fields of later versions. Bounds what a peer that has not said hello can make the server hold.
pub const CONTROL_PAYLOAD_BYTES_MAX: u32 = 4096;

/// Bytes of a client's or server's name: its length is one byte on the wire.
pub const NAME_BYTES_MAX: usize = 255;

/// Bytes of a refusal's text: a long sentence with a name and two numbers, twice over.
pub const REFUSAL_TEXT_BYTES_MAX: usize = 1024;

// A message of the largest size, its length prefix and its peer fit in a batch.
const _: () = assert!((MESSAGE_BYTES_MAX as usize) + 64 + PEER_BYTES_MAX < BATCH_BODY_BYTES_MAX as usize);
const _: () = assert!(MESSAGE_BYTES_DEFAULT <= MESSAGE_BYTES_MAX);
// One more message of the largest size may be added to a batch that is one byte short of its target.
const _: () = assert!(BATCH_BODY_BYTES_TARGET + (MESSAGE_BYTES_MAX as usize) < BATCH_BODY_BYTES_MAX as usize);
// Every frame that is encoded here fits the largest payload that is read here; 64 is more than any fixed part.
const _: () = assert!(64 + REFUSAL_TEXT_BYTES_MAX < CONTROL_PAYLOAD_BYTES_MAX as usize);
const _: () = assert!(64 + NAME_BYTES_MAX < CONTROL_PAYLOAD_BYTES_MAX as usize);
