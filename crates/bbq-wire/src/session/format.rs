//! What every control frame begins with.

pub(super) const MAGIC: [u8; 4] = *b"BBQC";
pub(super) const VERSION: u8 = 1;
/// The checksum covers everything behind itself.
pub(super) const CRC_FROM: usize = 8;
