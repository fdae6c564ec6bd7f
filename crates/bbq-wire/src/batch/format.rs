//! What every batch begins with.

pub(crate) const MAGIC: [u8; 4] = *b"BBQB";
pub(super) const VERSION: u8 = 1;
/// The checksum covers everything behind itself.
pub(super) const CRC_FROM: usize = 8;
