//! [`Storage`] on a real file system.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

use crate::{Storage, StorageFile, direct};

/// Files of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskStorage;

impl Storage for DiskStorage {
    fn create_dir_all(&self, directory: &Path) -> io::Result<()> {
        let missing: Vec<&Path> =
            directory.ancestors().filter(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
        fs::create_dir_all(directory)?;
        // A file that is durable in a directory that is not would be lost with it.
        missing.into_iter().try_for_each(sync_parent)
    }

    fn available(&self, directory: &Path) -> io::Result<u64> {
        let room = rustix::fs::statvfs(directory)?;
        Ok(room.f_bavail.saturating_mul(room.f_frsize))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn StorageFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let made = allocate(&file, bytes).and_then(|()| file.sync_all()).and_then(|()| sync_parent(path));
        if let Err(error) = made {
            // A file without its space is of no use, and its name must be free for the next try.
            let _already_failing = fs::remove_file(path);
            return Err(error);
        }
        Ok(Box::new(DiskFile::new(file)))
    }

    fn recycle(&self, from: &Path, to: &Path, bytes: u64, head: &[u8]) -> io::Result<Box<dyn StorageFile>> {
        let file = OpenOptions::new().read(true).write(true).open(from)?;
        // Before it has its name: a segment has its header at any time.
        allocate(&file, bytes)?;
        file.set_len(bytes)?;
        file.write_all_at(head, 0)?;
        file.sync_all()?;
        self.rename(from, to)?;
        Ok(Box::new(DiskFile::new(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        // Segments are only read after they were sealed, but a torn one must be cut.
        let file =
            OpenOptions::new().read(true).write(true).open(path).or_else(|error| match error.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => File::open(path),
                _ => Err(error),
            })?;
        Ok(Box::new(DiskFile::new(file)))
    }

    fn replace(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let file = File::create(&beside)?;
        file.write_all_at(contents, 0)?;
        file.sync_data()?;
        fs::rename(&beside, path)?;
        sync_parent(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        sync_parent(to)?;
        if from.parent() == to.parent() { Ok(()) } else { sync_parent(from) }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// Reserves the space now, so that a full disk is met here and not in the middle of a group; file systems that cannot
/// (EOPNOTSUPP) get the length alone.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(()); // fallocate(2) answers EINVAL
    }
    match rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes)) {
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(bytes),
        other => other.map_err(io::Error::from),
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

struct DiskFile {
    file: File,
    /// It takes large pieces past the page cache, as far as is known.
    direct: Cell<bool>,
}

impl DiskFile {
    fn new(file: File) -> DiskFile {
        DiskFile { file, direct: Cell::new(true) }
    }

    /// Does what learns whether the file takes large pieces past the page cache.
    fn learning<T>(&self, work: impl FnOnce(&mut bool) -> T) -> T {
        let mut direct = self.direct.get();
        let done = work(&mut direct);
        self.direct.set(direct);
        done
    }
}

impl StorageFile for DiskFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        direct::read_at(&self.file, offset, buffer, &mut false)
    }

    fn read_large_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.learning(|direct| direct::read_at(&self.file, offset, buffer, direct))
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.learning(|direct| direct::write_all_at(&self.file, offset, bytes, direct))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)?;
        self.file.sync_all()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}
