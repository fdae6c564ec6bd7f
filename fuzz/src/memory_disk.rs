//! A disk in memory: fast, and always well.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bbq_spool::{OpenMode, Storage, StorageFile};

/// A larger file is not made, whatever is asked for.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

type Contents = Arc<Mutex<Vec<u8>>>;

/// Files by their path; directories are there as soon as they are named.
#[derive(Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<BTreeMap<PathBuf, Contents>>>);

impl MemoryDisk {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Contents>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a file there.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        self.locked().insert(path.to_owned(), Arc::new(Mutex::new(bytes.to_vec())));
    }
}

struct MemoryFile(Contents);

impl MemoryFile {
    fn locked(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn length(bytes: u64) -> io::Result<usize> {
        if bytes > FILE_BYTES_MAX { Err(io::ErrorKind::StorageFull.into()) } else { Ok(bytes as usize) }
    }
}

impl Storage for MemoryDisk {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        // A directory in it shows by its first part.
        let files = self.locked();
        let inside = files.keys().filter_map(|path| path.strip_prefix(directory).ok()?.components().next());
        let mut names: Vec<String> =
            inside.map(|name| name.as_os_str().to_string_lossy().into_owned()).collect();
        names.dedup();
        Ok(names)
    }

    fn available(&self, _: &Path) -> io::Result<u64> {
        Ok(1 << 40)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        let mut files = self.locked();
        let there = files.get(path).cloned();
        let contents = match (mode, there) {
            (OpenMode::Existing, None) => return Err(io::ErrorKind::NotFound.into()),
            (OpenMode::Append | OpenMode::Directory, _) => return Err(io::ErrorKind::Unsupported.into()),
            (OpenMode::New, Some(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            (OpenMode::Existing | OpenMode::ExistingOrNew | OpenMode::Lock, Some(contents)) => contents,
            (OpenMode::New | OpenMode::ExistingOrNew | OpenMode::Lock | OpenMode::Empty, _) => {
                files.insert(path.to_owned(), Contents::default());
                files[path].clone()
            }
        };
        Ok(Box::new(MemoryFile(contents)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.locked();
        let contents = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), contents);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.locked().remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl StorageFile for MemoryFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let contents = self.locked();
        let rest = usize::try_from(offset).ok().and_then(|offset| contents.get(offset..)).unwrap_or_default();
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = MemoryFile::length(offset + bytes.len() as u64)?;
        let mut contents = self.locked();
        if contents.len() < end {
            contents.resize(end, 0);
        }
        contents[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let bytes = MemoryFile::length(bytes)?;
        let mut contents = self.locked();
        let longer = contents.len().max(bytes);
        contents.resize(longer, 0);
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let bytes = MemoryFile::length(bytes)?;
        self.locked().resize(bytes, 0);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.locked().len() as u64)
    }
}
