//! The bytes of a lane on disk. All numbers are little-endian; every `crc` is CRC-32C.
//!
//! A lane's directory holds segments named by their position in 20 decimal digits, `00000000000067108864.seg`. The
//! position of a byte is its segment's position plus its offset in the file; the next segment begins where this one
//! ends. Positions are never used twice, and groups never cross a segment's end.
//!
//! ```text
//! segment:  header | group | group | ... | anything (while it is the last: its space is allocated ahead)
//! group:    frame | entry | entry | ... | zeros up to the next block of 4,096 bytes
//!                                               what one write and one fdatasync made durable
//! entry:    envelope | batch                   the batch as it came, see bbq_wire::batch
//!
//! segment header, a multiple of 4,096 bytes        group frame, 48 bytes
//!   0   4  magic "BBQS"                              0   4  magic "BBQG"
//!   4   4  crc of all behind, to header_bytes        4   4  crc of bytes 8 .. 48
//!   8   4  header_bytes                              8   4  bytes of the entries behind it
//!  12   4  version, 2                               12   4  entries
//!  16   4  lane                                     16   8  position of this frame
//!  20   4  sources                                  24   8  first_record: records in the lane before it
//!  24   8  position of the segment                  32   4  records
//!  32   8  first_record                             36   4  padding: zeros behind the entries
//!  40   8  created_ns
//!  48   8  allocated: bytes the file was made with
//!  56      sources, each: 8 records before this segment, 2 bytes of the name, the name
//!
//! envelope, 56 bytes
//!   0   4  magic "BBQE"
//!   4   4  crc of bytes 8 .. 56
//!   8   4  batch_bytes
//!  12   2  source: index into the segment's sources
//!  14   1  peer kind: 0 none, 1 process, 4 IPv4, 6 IPv6
//!  15   1  high byte of name_mark: 24 bits of the name of the token to which the stream belongs, 0 if to nobody
//!  16   8  received_ns: nanoseconds since 1970-01-01 UTC
//!  24  16  peer address, IPv4 in its first 4; or pid, uid and gid of the process, 4 each
//!  40   2  peer port
//!  42   4  batch_crc: the batch's own checksum
//!  46   2  low bytes of name_mark
//!  48   8  tag: as in the group's frame
//! ```
//!
//! Version 1 had no padding: its headers were multiples of 64 bytes, and a group began where the one before it ended. Such
//! segments are read, but no longer written.
//!
//! Why padding: the next group shares no sector with a durable group, so no write endangers acknowledged messages.
//!
//! Why frames: a group is written only after the group before it is durable. So damage with a valid frame anywhere behind it was
//! durable once, and is set aside. Damage with no valid frame behind it is a tail that a crash tore; it was never acknowledged,
//! and is cut off. A segment is cut to its groups when it is complete, and when the server stops. So a segment that is shorter
//! than it was allocated has no torn tail; every error in it is damage.
//!
//! Why tags: a segment that all readers have passed is written again under another name, with its old bytes in it. A frame
//! contains its position, so an old frame is invalid. An entry names its group and its batch, so old entries that a crash leaves
//! in the middle of a new group are not taken for a part of it.

mod bytes;
mod envelope;
mod frame;
mod segment_header;
mod sizes;

pub use envelope::{Binding, Envelope, NameMark};
pub use frame::{FRAME_MAGIC, GroupFrame};
pub use segment_header::{SegmentHeader, Sources};
pub use sizes::{ENVELOPE_BYTES, GROUP_FRAME_BYTES, SEGMENT_HEADER_BYTES_MAX};
