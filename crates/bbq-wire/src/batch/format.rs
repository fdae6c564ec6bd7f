//! Constants of the batch format.

pub(crate) const MAGIC: [u8; 4] = *b"BBQB";
pub(super) const VERSION: u8 = 1;
/// The checksum covers everything from this offset on.
pub(super) const CRC_FROM: usize = 8;
