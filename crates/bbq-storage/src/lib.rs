//! Access to the disk for files that must survive a crash: spools, cursors, outputs.
//!
//! [`Storage`] has the operations of a file system; [`DiskStorage`] implements them. Operations of several steps, such as the
//! atomic replacement of a file, are methods of `dyn Storage`.
//!
//! Invariant: nothing is durable without a sync.

#![forbid(unsafe_code)]

mod aligned_buffer;
pub mod direct;
mod disk;
mod durable;
#[doc(hidden)]
pub mod forwarding;
mod private;
mod shown_bytes;
mod storage;

pub use disk::DiskStorage;
pub use durable::{READ_TRIES_MAX, is_unreadable, parent_of};
pub use shown_bytes::ShownBytes;
pub use storage::{FileIdentity, NodeKind, OpenMode, Storage, StorageFile};

/// Direct reads and writes are multiples of this: a page, as usual disks and file systems have no larger blocks.
pub const BLOCK_BYTES: usize = 4096;
