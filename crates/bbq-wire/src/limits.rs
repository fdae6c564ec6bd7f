//! The sizes of the wire and the disk formats, with their reasons. Assertions relate them to each other.

/// Bytes of the fixed batch header: one cache line.
pub const BATCH_HEADER_BYTES: usize = 64;

/// The largest body of one batch, compressed or not. It bounds the memory that one connection can take, and the memory of a
/// reader.
pub const BATCH_BODY_BYTES_MAX: u32 = 16 * 1024 * 1024;

/// The most records in one batch. Without it, 16 MiB could have 16 million empty records, delivered between two reads of the
/// clock.
pub const BATCH_RECORDS_MAX: u32 = 1 << 20;

/// The largest message that any configuration may allow.
pub const MESSAGE_BYTES_MAX: u32 = 8 * 1024 * 1024;

/// The default limit of a message. rsyslog's default of 8 KiB is too small for some users; stack traces and JSON documents fit in
/// 1 MiB. The memory of unfinished messages is limited separately.
pub const MESSAGE_BYTES_DEFAULT: u32 = 1024 * 1024;

/// The size at which a batch should be sent: so large that header, checksum and system calls cost little per message, and so
/// small that it stays in a core's second-level cache.
pub const BATCH_BODY_BYTES_TARGET: usize = 256 * 1024;

/// Bytes of one encoded peer at most: kind, IPv6 address, port.
pub const PEER_BYTES_MAX: usize = 1 + 16 + 2;

/// Bytes of the text that says why records were rejected: the beginning of a server's response.
pub const REJECTION_BYTES_MAX: usize = 256;

/// Bytes of the name of the listener that received a batch first: a name that is configured has 200 at most.
pub const ORIGIN_LISTENER_BYTES_MAX: usize = 256;

/// Fields that all records of a batch have in common: those of a container, and some labels.
pub const FIELDS_MAX: usize = 32;

/// Bytes of the name of a field: OpenTelemetry's longest has 40.
pub const FIELD_NAME_BYTES_MAX: usize = 64;

/// Bytes of the value of a field: the longest path of Linux.
pub const FIELD_VALUE_BYTES_MAX: usize = 4096;

/// Bytes of the fixed header of a control frame (hello, welcome, ack, refusal).
pub const CONTROL_HEADER_BYTES: usize = 16;

/// The largest payload of a control frame. The largest frame is a refusal with 1 KiB of text; the rest is for fields of later
/// versions. It bounds the memory that a peer without a hello can take.
pub const CONTROL_PAYLOAD_BYTES_MAX: u32 = 4096;

/// Bytes of a client's or server's name: its length is one byte on the wire.
pub const NAME_BYTES_MAX: usize = 255;

/// Bytes of a token at least: fewer could be guessed.
pub const TOKEN_BYTES_MIN: usize = 16;

/// Bytes of a token at most: 32 random bytes take 64 in hexadecimal, and a signed token some hundreds.
pub const TOKEN_BYTES_MAX: usize = 512;

/// Bytes of a refusal's text: two long sentences.
pub const REFUSAL_TEXT_BYTES_MAX: usize = 1024;

// A message of the largest size, its length prefix and all attributes fit in a batch.
const _: () = assert!(
    (MESSAGE_BYTES_MAX as usize) + 128 + PEER_BYTES_MAX + REJECTION_BYTES_MAX + ORIGIN_LISTENER_BYTES_MAX
        < BATCH_BODY_BYTES_MAX as usize
);
const _: () = assert!(MESSAGE_BYTES_DEFAULT <= MESSAGE_BYTES_MAX);
// One more message of the largest size may be added to a batch that is one byte short of its target.
const _: () = assert!(BATCH_BODY_BYTES_TARGET + (MESSAGE_BYTES_MAX as usize) < BATCH_BODY_BYTES_MAX as usize);
// Every frame that is encoded here fits the largest payload that is read here; 64 is more than any fixed part.
const _: () = assert!(64 + REFUSAL_TEXT_BYTES_MAX < CONTROL_PAYLOAD_BYTES_MAX as usize);
const _: () = assert!(64 + NAME_BYTES_MAX + TOKEN_BYTES_MAX < CONTROL_PAYLOAD_BYTES_MAX as usize);
