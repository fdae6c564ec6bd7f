//! A disk in memory that knows what is durable. On request or by chance, it loses power, fails, fills up and rots.
//!
//! ```text
//! write -> page cache (read from here) --sync--> disk     a failed sync leaves pages clean that never got there; it may leave
//!                                                         them stuck, so that no later sync writes them either
//! name  -> directory  (looked up here) --sync--> disk     a sync of the directory, not of the file
//! ```
//!
//! A *kill* ends a process: its calls fail from then on, and the next process finds the page cache as it was. A *power cut*
//! may lose all that was not synced. Each sector of 512 bytes is old or new by itself. The length of a file is old or new. Of
//! each directory's changes, a first part is kept, or any of them.
//!
//! Invariant: all random behaviour depends only on the seed and the order of calls.

mod faults;
mod inode;
mod names;
mod pages;
mod state;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bbq_spool::SteppedTime;
use bbq_storage::{FileIdentity, NodeKind, OpenMode, Storage, StorageFile};

pub use faults::{Cut, Faults};
use inode::{Inode, Settling};
use names::Node;
use state::{EIO, State};

use crate::random::Random;

/// The disk; see the module. All clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk(Arc<Mutex<State>>);

impl SimDisk {
    /// An empty disk without faults.
    #[must_use]
    pub fn new(random: Random) -> SimDisk {
        SimDisk(Arc::new(Mutex::new(State::new(random))))
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the clock of modification times.
    pub fn set_clock(&self, clock: Arc<SteppedTime>) {
        self.locked().clock = Some(clock);
    }

    /// Keeps the contents of files that are removed from this directory from now on.
    pub fn keep_removed(&self, directory: &Path) {
        self.locked().kept = Some((directory.to_owned(), BTreeMap::new()));
    }

    /// The names and contents of files that were removed from the directory, sorted. A power failure may have brought a file back: it is
    /// not among them.
    #[must_use]
    pub fn removed(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let state = self.locked();
        let named = state.names.live_files();
        let kept = state.kept.iter().flat_map(|(_, kept)| kept);
        let gone = kept.filter(|((_, file), _)| !named.contains(file));
        gone.map(|((path, _), bytes)| (path.clone(), bytes.clone())).collect()
    }

    /// Changes what goes wrong from now on.
    pub fn set_faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.locked().faults);
    }

    /// Ends all faults, except planted bugs.
    pub fn heal(&self) {
        let mut state = self.locked();
        state.faults.heal();
        state.armed = None;
    }

    /// Ends the process in the middle of a changing call, after `calls` more of them.
    pub fn cut_after(&self, calls: u64, cut: Cut) {
        let mut state = self.locked();
        state.armed = Some((state.calls + calls, cut));
    }

    /// Ends the process now: all its calls fail.
    pub fn cut(&self, cut: Cut) {
        self.locked().halted.get_or_insert(cut);
    }

    /// How the process has ended; `None` if it runs.
    #[must_use]
    pub fn halted(&self) -> Option<Cut> {
        self.locked().halted
    }

    /// Starts the next process, with the files that the last one left. The new process has no planned end.
    pub fn restart(&self) {
        let mut state = self.locked();
        if state.halted.take() == Some(Cut::Power) {
            state.lose_power();
        }
        state.armed = None;
        state.process += 1;
        state.inodes.iter_mut().for_each(|inode| (inode.opens, inode.locked_by) = (0, None));
    }

    /// The kernel drops clean pages.
    pub fn evict(&self) {
        self.locked().inodes.iter_mut().for_each(Inode::evict);
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.locked().used()
    }

    /// The contents of a file, for checks. Faults do not apply.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn contents(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = self.locked();
        let inode = &state.inodes[state.file(path)?];
        let mut bytes = vec![0; inode.len() as usize];
        inode.read(0, &mut bytes);
        Ok(bytes)
    }

    /// Sorted names in a directory; none if it does not exist. Faults do not apply.
    #[must_use]
    pub fn names(&self, directory: &Path) -> Vec<PathBuf> {
        let names = self.locked().names.list(directory).unwrap_or_default();
        names.into_iter().map(|name| directory.join(name)).collect()
    }

    /// Removes a file durably, as another program would. Returns whether it existed.
    pub fn take_away(&self, path: &Path) -> bool {
        let mut state = self.locked();
        let gone = state.names.remove(path).is_ok();
        gone && state.names.sync(path.parent().unwrap_or(Path::new("/"))).is_ok()
    }

    /// Overwrites bytes of a file durably, as another program would. Returns whether the file exists.
    pub fn put(&self, path: &Path, offset: u64, bytes: &[u8]) -> bool {
        let mut state = self.locked();
        let Ok(file) = state.file(path) else { return false };
        state.inodes[file].write(offset, bytes);
        state.inodes[file].sync();
        true
    }

    /// Creates or replaces a file durably, as another program would.
    ///
    /// # Errors
    /// If `path` is a directory.
    pub fn put_file(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        let mut state = self.locked();
        for directory in path.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
            let _exists = state.names.add_directory(directory);
            let _root = directory.parent().map(|parent| state.names.sync(parent));
        }
        let _new = state.names.remove(path);
        let file = state.new_file(path)?;
        state.inodes[file].write(0, contents);
        state.inodes[file].sync();
        path.parent().map_or(Ok(()), |directory| state.names.sync(directory))
    }

    /// Makes the files of a directory those that another disk has there, durably, as another program would.
    pub fn set_back(&self, directory: &Path, earlier: &SimDisk) {
        for path in self.files(directory) {
            self.take_away(&path);
        }
        for path in earlier.files(directory) {
            if let Ok(contents) = earlier.contents(&path) {
                let _no_directory_has_the_name = self.put_file(&path, &contents);
            }
        }
    }

    /// All files in a directory and those below it.
    fn files(&self, directory: &Path) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for path in self.names(directory) {
            if self.locked().file(&path).is_ok() {
                files.push(path);
            } else {
                files.append(&mut self.files(&path));
            }
        }
        files
    }

    /// Makes the sectors of these bytes unreadable for good, and all others readable. Returns whether the file exists.
    pub fn set_unreadable(&self, path: &Path, bytes: std::ops::Range<usize>) -> bool {
        let mut state = self.locked();
        let Ok(file) = state.file(path) else { return false };
        state.inodes[file].set_unreadable(bytes.start as u64, bytes.len() as u64);
        true
    }

    /// A copy of the disk. Changes of the copy do not affect this disk.
    #[must_use]
    pub fn fork(&self) -> SimDisk {
        let mut state = self.locked();
        let random = state.random.fork();
        SimDisk(Arc::new(Mutex::new(State { random, ..state.clone() })))
    }

    /// What is left of the disk if the power fails and nothing was written in time.
    #[must_use]
    pub fn durable(&self) -> SimDisk {
        let disk = self.fork();
        let mut state = disk.locked();
        let mut random = state.random.fork();
        state.lose_unsynced(Settling::Nothing, &mut random);
        drop(state);
        disk
    }

    /// Flips a bit of a file on the disk. Returns whether there was a bit to flip.
    pub fn rot(&self, path: &Path) -> bool {
        let mut state = self.locked();
        let Ok(file) = state.file(path) else { return false };
        let sectors = state.inodes[file].len().div_ceil(pages::SECTOR);
        let (sector, bit) = (state.random.below(sectors), state.random.below(pages::SECTOR * 8));
        state.inodes[file].rot(sector, bit)
    }

    /// Makes one sector of a file unreadable for this many reads.
    pub fn make_unreadable(&self, path: &Path, times: u32) -> bool {
        let mut state = self.locked();
        let Ok(file) = state.file(path) else { return false };
        let sectors = state.inodes[file].len().div_ceil(pages::SECTOR);
        if sectors == 0 {
            return false;
        }
        let sector = state.random.below(sectors);
        state.inodes[file].make_unreadable(sector, times);
        true
    }
}

impl Storage for SimDisk {
    fn create_dir(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.locked();
        let fails = state.faults.open;
        state.change(fails, |state| state.names.add_directory(directory))
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.locked();
        let fails = state.faults.sync_dir;
        state.change(
            fails,
            |state| {
                if state.faults.ignores_sync_dir { Ok(()) } else { state.names.sync(directory) }
            },
        )
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut state = self.locked();
        state.is_running()?;
        let fails = state.faults.open;
        state.roll(fails)?;
        state.names.list(directory)
    }

    fn available(&self, _directory: &Path) -> io::Result<u64> {
        let state = self.locked();
        state.is_running()?;
        Ok(state.available())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        let mut state = self.locked();
        let file = state.open(path, mode)?;
        state.handles += 1;
        let (process, handle) = (state.process, state.handles);
        let appends = mode == OpenMode::Append;
        Ok(Box::new(SimFile { disk: self.clone(), file, process, handle, appends }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.locked();
        let fails = state.faults.rename;
        state.change(fails, |state| state.names.rename(from, to).map(drop))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.locked();
        let fails = state.faults.rename;
        state.change(fails, |state| state.remove(path))
    }

    fn remove_dir_all(&self, directory: &Path) -> io::Result<()> {
        for name in self.list(directory)? {
            let path = directory.join(name);
            match self.kind(&path)? {
                NodeKind::Directory => self.remove_dir_all(&path)?,
                _ => self.remove(&path)?,
            }
        }
        self.remove(directory)
    }

    fn kind(&self, path: &Path) -> io::Result<NodeKind> {
        let state = self.locked();
        state.is_running()?;
        Ok(match state.names.find(path)? {
            Node::File(_) => NodeKind::File,
            Node::Directory(_) => NodeKind::Directory,
        })
    }

    fn inode(&self, path: &Path) -> io::Result<u64> {
        let mut state = self.locked();
        state.is_running()?;
        let fails = state.faults.open;
        state.roll(fails)?;
        state.file(path).map(|file| file as u64)
    }
}

struct SimFile {
    disk: SimDisk,
    file: usize,
    process: u64,
    handle: u64,
    appends: bool,
}

impl SimFile {
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.locked();
        state.is_running()?;
        if state.process == self.process { Ok(state) } else { Err(io::Error::other("of an ended process")) }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.disk.locked();
        if state.process == self.process {
            let inode = &mut state.inodes[self.file];
            inode.opens = inode.opens.saturating_sub(1);
            inode.locked_by = inode.locked_by.filter(|handle| *handle != self.handle);
        }
    }
}

impl StorageFile for SimFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state()?;
        let fails = state.faults.read;
        state.roll(fails)?;
        if state.inodes[self.file].read_fails(offset, buffer.len()) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Ok(state.inodes[self.file].read(offset, buffer))
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state()?;
        let offset = if self.appends { state.inodes[self.file].len() } else { offset };
        state.write(self.file, offset, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.state()?.sync(self.file)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.state()?.sync(self.file)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let file = self.file;
        let mut state = self.state()?;
        let fails = state.faults.write;
        state.change(fails, |state| {
            state.has_room(file, bytes)?;
            state.inodes[file].allocate(bytes);
            Ok(())
        })
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let file = self.file;
        let mut state = self.state()?;
        let fails = state.faults.write;
        state.change(fails, |state| {
            state.inodes[file].set_len(bytes);
            Ok(())
        })
    }

    fn forget_cached(&self) -> io::Result<()> {
        let mut state = self.state()?;
        if !state.faults.keeps_cached {
            state.inodes[self.file].evict();
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.state()?.inodes[self.file].len())
    }

    fn inode(&self) -> io::Result<u64> {
        self.state().map(|_| self.file as u64)
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        match self.disk.inode(path) {
            Ok(inode) => Ok(inode == self.file as u64),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Inode numbers are never used again here, and each disk has its own time of creation.
    fn identity(&self) -> io::Result<FileIdentity> {
        let state = self.state()?;
        if state.faults.hides_identity {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(FileIdentity { inode: self.file as u64, created_ns: state.id, is_as_written: true })
    }

    fn modified(&self) -> io::Result<SystemTime> {
        let modified_ns = self.state()?.inodes[self.file].modified_ns;
        Ok(SystemTime::UNIX_EPOCH + Duration::from_nanos(modified_ns))
    }

    fn try_lock(&self) -> io::Result<()> {
        match &mut self.state()?.inodes[self.file].locked_by {
            Some(handle) if *handle != self.handle => Err(io::ErrorKind::WouldBlock.into()),
            free => {
                *free = Some(self.handle);
                Ok(())
            }
        }
    }

    fn unlock(&self) -> io::Result<()> {
        let locked_by = &mut self.state()?.inodes[self.file].locked_by;
        if *locked_by == Some(self.handle) {
            *locked_by = None;
        }
        Ok(())
    }
}
