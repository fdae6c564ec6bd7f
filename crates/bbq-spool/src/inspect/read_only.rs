//! A read-only storage.

use std::fs::File;
use std::io;
use std::path::Path;

use bbq_storage::direct;

use crate::{DiskStorage, OpenMode, Storage, StorageFile};

/// [`Storage`] that refuses every change with [`io::ErrorKind::ReadOnlyFilesystem`]; files are not even opened for writing.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOnlyDisk;

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Storage for ReadOnlyDisk {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        DiskStorage.list(directory)
    }

    fn available(&self, _: &Path) -> io::Result<u64> {
        Ok(0)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        match mode {
            OpenMode::Existing => Ok(Box::new(ReadOnlyFile(File::open(path)?))),
            OpenMode::Directory
            | OpenMode::New
            | OpenMode::ExistingOrNew
            | OpenMode::Lock
            | OpenMode::Empty
            | OpenMode::Append => refused(),
        }
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        refused()
    }
}

struct ReadOnlyFile(File);

impl StorageFile for ReadOnlyFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        direct::read_at(&self.0, offset, buffer, &mut false)
    }

    fn write_all_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        refused()
    }

    fn sync_data(&self) -> io::Result<()> {
        refused()
    }

    fn sync_all(&self) -> io::Result<()> {
        refused()
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        refused()
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        refused()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
