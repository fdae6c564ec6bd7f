//! For tests: storages and files that change a few calls and forward the rest to others.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use crate::{DiskStorage, FileIdentity, NodeKind, OpenMode, Storage, StorageFile};

macro_rules! forwarding {
    (
        $(#[$attribute:meta])*
        $name:ident: $trait:ident $inner:tt
        $(fn $method:ident(&self $(, $argument:ident: $type:ty)*) $(-> $returned:ty)?;)*
    ) => {
        $(#[$attribute])*
        pub trait $name: Send + Sync {
            /// Gets the calls that are not changed.
            fn inner(&self) -> &dyn $trait $inner
            $(#[doc = concat!("See [`", stringify!($trait), "`].")]
            fn $method(&self $(, $argument: $type)*) $(-> $returned)? {
                self.inner().$method($($argument),*)
            })*
        }

        impl<T: $name> $trait for T {
            $(fn $method(&self $(, $argument: $type)*) $(-> $returned)? {
                $name::$method(self $(, $argument)*)
            })*
        }
    };
}

forwarding! {
    /// A [`Storage`] that forwards what it does not implement, to the real disk unless it says otherwise.
    ForwardingStorage: Storage { &DiskStorage }
    fn create_dir(&self, directory: &Path) -> io::Result<()>;
    fn keep_private(&self, directory: &Path) -> io::Result<Option<String>>;
    fn sync_dir(&self, directory: &Path) -> io::Result<()>;
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
    fn available(&self, directory: &Path) -> io::Result<u64>;
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn remove_dir_all(&self, directory: &Path) -> io::Result<()>;
    fn kind(&self, path: &Path) -> io::Result<NodeKind>;
    fn inode(&self, path: &Path) -> io::Result<u64>;
}

forwarding! {
    /// A [`StorageFile`] that forwards what it does not implement.
    ForwardingFile: StorageFile ;
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    fn read_large_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    fn sync_data(&self) -> io::Result<()>;
    fn sync_all(&self) -> io::Result<()>;
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    fn forget_cached(&self) -> io::Result<()>;
    fn read_stored_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    fn len(&self) -> io::Result<u64>;
    fn is_empty(&self) -> io::Result<bool>;
    fn inode(&self) -> io::Result<u64>;
    fn is_at(&self, path: &Path) -> io::Result<bool>;
    fn links(&self) -> io::Result<u64>;
    fn identity(&self) -> io::Result<FileIdentity>;
    fn modified(&self) -> io::Result<SystemTime>;
    fn stay_in_cache(&self);
    fn try_lock(&self) -> io::Result<()>;
    fn unlock(&self) -> io::Result<()>;
}
