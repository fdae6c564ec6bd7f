//! What goes wrong with a disk.

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It is killed; the page cache stays.
    Kill,
    /// Power goes; what was not synced is lost in part.
    Power,
}

/// How often calls fail, each in 65,536, and how the disk misbehaves otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Writes, allocations and changes of a length: EIO, nothing happened.
    pub write: u32,
    /// Syncs of files: EIO, some was written, and the rest is clean from now on.
    pub sync: u32,
    /// Syncs of directories.
    pub sync_dir: u32,
    /// Reads, whatever their place.
    pub read: u32,
    /// Opening, listing, and looking up which file has a name.
    pub open: u32,
    /// Renaming and removing.
    pub rename: u32,
    /// Bytes that all files may take; no limit if `None`.
    pub capacity: Option<u64>,
    /// Syncs of files do nothing and say that they did: no program can stand that.
    pub lies: bool,
    /// The same for directories; stands for a program that forgets to sync them.
    pub ignores_sync_dir: bool,
    /// A write of what stands in the page cache does nothing; stands for a program that believes the page cache instead of
    /// writing again what a failed sync left there.
    pub believes_cache: bool,
}

impl Faults {
    /// Nothing fails any more; what the program gets wrong stays.
    pub fn heal(&mut self) {
        let Faults { lies, ignores_sync_dir, believes_cache, .. } = *self;
        *self = Faults { lies, ignores_sync_dir, believes_cache, ..Faults::default() };
    }
}
