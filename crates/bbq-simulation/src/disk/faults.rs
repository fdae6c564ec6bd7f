//! The faults of a disk.

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The process is killed; the page cache stays.
    Kill,
    /// Power fails; a part of the unsynced data is lost.
    Power,
}

/// How often calls fail, each in 65,536, and how the disk misbehaves otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Writes, allocations and changes of a length. They fail with EIO, and change nothing.
    pub write: u32,
    /// Syncs of files. They fail with EIO; a part was written, and all pages are then clean.
    pub sync: u32,
    /// Syncs of directories.
    pub sync_dir: u32,
    /// Reads anywhere.
    pub read: u32,
    /// Opening, listing, and looking up which file has a name.
    pub open: u32,
    /// Renaming and removing.
    pub rename: u32,
    /// Bytes that all files may take; no limit if `None`.
    pub capacity: Option<u64>,
    /// Syncs of files do nothing and return success. No program can survive this.
    pub lies: bool,
    /// The same for directories. This stands for a program that forgets to sync them.
    pub ignores_sync_dir: bool,
    /// A write of the bytes that are in the page cache does nothing: this stands for a program that trusts the page cache after a
    /// failed sync instead of writing again.
    pub believes_cache: bool,
    /// Pages are dropped only by the kernel, never on request: this stands for a program that writes to the same cached pages again
    /// after a failed sync.
    pub keeps_cached: bool,
    /// Nobody learns which file a file is: this stands for a program that does not look.
    pub hides_identity: bool,
}

impl Faults {
    /// Ends all faults, except planted bugs.
    pub fn heal(&mut self) {
        let Faults { lies, ignores_sync_dir, believes_cache, keeps_cached, hides_identity, .. } = *self;
        *self = Faults {
            lies,
            ignores_sync_dir,
            believes_cache,
            keeps_cached,
            hides_identity,
            ..Faults::default()
        };
    }
}
