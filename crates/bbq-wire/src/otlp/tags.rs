//! The nested messages of a request, and how they are written.

/// The tag of a repeated message: number 1 of a request, number 2 of a ResourceLogs and of a ScopeLogs.
pub(super) const RESOURCE_LOGS: u32 = 1;
pub(super) const SCOPE_LOGS: u32 = 2;
pub(super) const LOG_RECORDS: u32 = 2;

/// Bytes of a message of so many bytes with its length and a tag of one byte.
pub(super) fn nested_bytes(bytes: usize) -> usize {
    1 + length_bytes(bytes) + bytes
}

fn length_bytes(length: usize) -> usize {
    (usize::BITS - (length | 1).leading_zeros()).div_ceil(7) as usize
}

/// Puts tag and length of a message.
pub(super) fn put_nested(number: u32, bytes: usize, out: &mut Vec<u8>) {
    // Wire type 2; the numbers here need one byte.
    out.push((number << 3 | 2) as u8);
    let mut rest = bytes;
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
