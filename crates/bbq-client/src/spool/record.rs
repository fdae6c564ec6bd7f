//! One record in a segment.
//!
//! ```text
//! record   checksum (u32) | bytes (u32) | the bytes
//! ```
//!
//! The checksum is the CRC-32C of all that follows xor that of the record's number (u64), or 1 where that is 0: so that what the file
//! held before it was begun anew, and a power failure brings back, is no record.

use bbq_wire::batch::crc32c;

pub(super) const RECORD_HEADER_BYTES: usize = 8;
pub(super) const CRC_BYTES: usize = 4;

/// The checksum of the record with a number; `None` stands for an earlier version's. `bytes` are its length and itself.
pub(super) fn checksum(number: Option<u64>, bytes: &[u8]) -> u32 {
    let crc = crc32c(bytes);
    match number {
        // 0 is what stands where nothing does.
        Some(number) => (crc ^ crc32c(&number.to_le_bytes())).max(1),
        None => crc,
    }
}

/// Encodes the record with a number.
pub(super) fn encode(number: u64, record: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0; CRC_BYTES]);
    out.extend_from_slice(&(record.len() as u32).to_le_bytes());
    out.extend_from_slice(record);
    let crc = checksum(Some(number), &out[CRC_BYTES..]);
    out[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
}
