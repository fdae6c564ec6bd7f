//! The planted bug "cursor before data": a storage that delays each sync to the next change of the file. So the cursor, which is
//! written after the sync, is durable before the output.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bbq_storage::forwarding::{ForwardingFile, ForwardingStorage};
use bbq_storage::{OpenMode, Storage, StorageFile};

use crate::disk::SimDisk;

pub(crate) struct LateSync(SimDisk);

impl LateSync {
    pub(crate) fn new(disk: SimDisk) -> LateSync {
        LateSync(disk)
    }
}

impl ForwardingStorage for LateSync {
    fn inner(&self) -> &dyn Storage {
        &self.0
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(LateFile { file: self.0.open(path, mode)?, is_owed: AtomicBool::new(false) }))
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

impl ForwardingFile for LateFile {
    fn inner(&self) -> &dyn StorageFile {
        &*self.file
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.settled()?.write_all_at(offset, bytes)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.is_owed.store(true, Ordering::Relaxed);
        Ok(())
    }
    fn sync_all(&self) -> io::Result<()> {
        ForwardingFile::sync_data(self)
    }
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.settled()?.allocate(bytes)
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.settled()?.set_len(bytes)
    }
}
