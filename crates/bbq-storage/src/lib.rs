//! The way to the disk, for what must survive a crash: a spool, a cursor, an output.
//!
//! [`Storage`] has what a file system offers, and no more; [`DiskStorage`] is the operating system's. What needs several
//! steps in the right order (a file put in another's place, a directory whose own entry is durable) is made of them, once.
//!
//! Invariant: nothing is durable without a sync.

#![forbid(unsafe_code)]

mod aligned_buffer;
pub mod direct;
mod disk;
mod durable;
#[doc(hidden)]
pub mod forwarding;
mod storage;

pub use disk::DiskStorage;
pub use durable::{READ_TRIES_MAX, is_unreadable, parent_of};
pub use storage::{NodeKind, OpenMode, Storage, StorageFile};

/// Files are written and read past the page cache in multiples of it: a page, as no disk and no file system of ours has
/// larger blocks.
pub const BLOCK_BYTES: usize = 4096;
