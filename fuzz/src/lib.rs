//! What the targets share.

mod framing;
mod memory_disk;

pub use framing::same_in_any_pieces;
pub use memory_disk::MemoryDisk;
