//! The planted bug "cursor before data": a way to the disk on which a sync comes late, with the next change of the file. So
//! the cursor, which follows the sync, is durable before the output.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use bbq_storage::{NodeKind, OpenMode, Storage, StorageFile};

use crate::disk::SimDisk;

pub(crate) struct LateSync(SimDisk);

impl LateSync {
    pub(crate) fn new(disk: SimDisk) -> LateSync {
        LateSync(disk)
    }
}

impl Storage for LateSync {
    fn create_dir(&self, directory: &Path) -> io::Result<()> {
        self.0.create_dir(directory)
    }
    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        self.0.sync_dir(directory)
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.0.list(directory)
    }
    fn available(&self, directory: &Path) -> io::Result<u64> {
        self.0.available(directory)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(LateFile { file: self.0.open(path, mode)?, is_owed: AtomicBool::new(false) }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }
    fn kind(&self, path: &Path) -> io::Result<NodeKind> {
        self.0.kind(path)
    }
    fn inode(&self, path: &Path) -> io::Result<u64> {
        self.0.inode(path)
    }
}

struct LateFile {
    file: Box<dyn StorageFile>,
    is_owed: AtomicBool,
}

impl LateFile {
    fn settled(&self) -> io::Result<&dyn StorageFile> {
        if self.is_owed.swap(false, Ordering::Relaxed) {
            self.file.sync_data()?;
        }
        Ok(&*self.file)
    }
}

impl Drop for LateFile {
    fn drop(&mut self) {
        let _nobody_hears = self.settled();
    }
}

impl StorageFile for LateFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.settled()?.write_all_at(offset, bytes)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.is_owed.store(true, Ordering::Relaxed);
        Ok(())
    }
    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.settled()?.allocate(bytes)
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.settled()?.set_len(bytes)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn inode(&self) -> io::Result<u64> {
        self.file.inode()
    }
    fn modified(&self) -> io::Result<SystemTime> {
        self.file.modified()
    }
    fn try_lock(&self) -> io::Result<()> {
        self.file.try_lock()
    }
    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}
