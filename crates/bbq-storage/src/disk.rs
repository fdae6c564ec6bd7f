//! [`Storage`] on a real file system.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use rustix::fs::{Advice, FallocateFlags, OFlags};

use crate::{FileIdentity, NodeKind, OpenMode, Storage, StorageFile, direct, private};

/// Permissions of a file: its owner reads and writes it.
const PRIVATE: u32 = 0o600;

/// Files of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskStorage;

impl Storage for DiskStorage {
    fn create_dir(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir(directory)
    }

    fn keep_private(&self, directory: &Path) -> io::Result<Option<String>> {
        private::keep_private(directory)
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory)? {
            // This program writes no names that are not UTF-8.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn available(&self, directory: &Path) -> io::Result<u64> {
        let room = rustix::fs::statvfs(directory)?;
        Ok(room.f_bavail.saturating_mul(room.f_frsize))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        let mut options = OpenOptions::new();
        // What is created here is for its owner; a log that others read is appended to.
        options.read(true).write(true).mode(PRIVATE);
        let opened = match mode {
            OpenMode::Existing => options.open(path).or_else(|error| match error.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => File::open(path),
                _ => Err(error),
            }),
            OpenMode::New => options.create_new(true).open(path),
            OpenMode::ExistingOrNew => options.create(true).truncate(false).open(path),
            OpenMode::Lock => {
                let flags = OFlags::NOFOLLOW.bits().cast_signed();
                options.create(true).truncate(false).custom_flags(flags).open(path)
            }
            OpenMode::Empty => options.create(true).truncate(true).open(path),
            OpenMode::Append => open_to_append(path),
            OpenMode::Directory => open_directory(path),
        };
        Ok(Box::new(DiskFile::new(opened?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, directory: &Path) -> io::Result<()> {
        fs::remove_dir_all(directory)
    }

    fn kind(&self, path: &Path) -> io::Result<NodeKind> {
        let metadata = fs::metadata(path)?;
        Ok(match (metadata.is_file(), metadata.is_dir()) {
            (true, _) => NodeKind::File,
            (_, true) => NodeKind::Directory,
            _ => NodeKind::Other,
        })
    }

    fn inode(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.ino())
    }
}

fn open_directory(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::DIRECTORY.bits().cast_signed()).open(path)
}

/// Opens a file to append, for writing alone if reading is not allowed.
fn open_to_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Without O_NONBLOCK, opening a pipe at this path would wait. For a regular file it has no effect.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    options.append(true).create(true).custom_flags(flags);
    let file = options.read(true).open(path).or_else(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => options.read(false).open(path),
        _ => Err(error),
    })?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

/// Reserves the space now, so that a full disk is an error here and not in the middle of a group. If the file system cannot
/// (EOPNOTSUPP), only the length is set.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(()); // fallocate(2) returns EINVAL
    }
    match rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes)) {
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(bytes),
        other => other.map_err(io::Error::from),
    }
}

struct DiskFile {
    file: File,
    /// Whether to try direct reads and writes.
    direct: AtomicBool,
    /// Device and inode, once somebody has asked: they cannot change while it is open.
    numbers: OnceLock<(u64, u64)>,
}

impl DiskFile {
    fn new(file: File) -> DiskFile {
        DiskFile { file, direct: AtomicBool::new(true), numbers: OnceLock::new() }
    }

    /// Runs `work`, which may find that the file does not support direct access.
    fn learning<T>(&self, work: impl FnOnce(&mut bool) -> T) -> T {
        let mut direct = self.direct.load(Ordering::Relaxed);
        let done = work(&mut direct);
        self.direct.store(direct, Ordering::Relaxed);
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

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        allocate(&self.file, bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn forget_cached(&self) -> io::Result<()> {
        // The whole file: a large folio that is only partly in the range would stay.
        Ok(rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed)?)
    }

    fn read_stored_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        direct::read_stored_at(&self.file, offset, buffer)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn inode(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.ino())
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let named = match fs::metadata(path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(false);
            }
            named => named?,
        };
        // Compared with the open file, whose numbers cannot change: on some file systems they do when nobody has it open.
        let open = match self.numbers.get() {
            Some(numbers) => *numbers,
            None => {
                let open = self.file.metadata()?;
                *self.numbers.get_or_init(|| (open.dev(), open.ino()))
            }
        };
        Ok((named.dev(), named.ino()) == open)
    }

    fn links(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.nlink())
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        let metadata = self.file.metadata()?;
        let created =
            metadata.created().ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        Ok(FileIdentity {
            inode: metadata.ino(),
            created_ns: created.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(0)),
            // A write sets both times to the same moment; whoever sets the first one changes the second.
            is_as_written: (metadata.mtime(), metadata.mtime_nsec())
                == (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    fn modified(&self) -> io::Result<SystemTime> {
        self.file.metadata()?.modified()
    }

    fn stay_in_cache(&self) {
        self.direct.store(false, Ordering::Relaxed);
    }

    fn try_lock(&self) -> io::Result<()> {
        self.file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            TryLockError::Error(error) => error,
        })
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}
