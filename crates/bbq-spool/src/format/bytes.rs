//! Little-endian fields at fixed offsets. Callers hold a slice that is long enough.

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

/// Writes the checksum of `bytes[8..]` into its place at 4.
pub(super) fn seal(bytes: &mut [u8]) {
    let crc = bbq_wire::batch::crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Whether the magic and the checksum fit.
pub(super) fn is_sealed(bytes: &[u8], magic: [u8; 4]) -> bool {
    bytes[..4] == magic && u32_at(bytes, 4) == bbq_wire::batch::crc32c(&bytes[8..])
}
