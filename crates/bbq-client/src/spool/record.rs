//! One record in a segment.
//!
//! ```text
//! record   checksum (u32) | bytes (u32) | the bytes
//! ```
//!
//! The checksum is the CRC-32C of all that follows it, xor the CRC-32C of the record's number (u64), or 1 if the result is 0. It covers
//! the number so that records from before a reset, which may come back after a power failure, are not taken for new ones.

use bbq_wire::batch::crc32c;

pub(super) const RECORD_HEADER_BYTES: usize = 8;
pub(super) const CRC_BYTES: usize = 4;

/// The checksum of a record; earlier versions have no number in it. `bytes` are the length and the record.
pub(super) fn checksum(number: Option<u64>, bytes: &[u8]) -> u32 {
    let crc = crc32c(bytes);
    match number {
        // Zeros mean that there is no record.
        Some(number) => (crc ^ crc32c(&number.to_le_bytes())).max(1),
        None => crc,
    }
}

pub(super) fn encode(number: u64, record: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0; CRC_BYTES]);
    out.extend_from_slice(&(record.len() as u32).to_le_bytes());
    out.extend_from_slice(record);
    let crc = checksum(Some(number), &out[CRC_BYTES..]);
    out[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
}
