//! A disk in memory that knows what is durable, can lose power, and can fail.
//!
//! It is as unkind as the contract of each [`Storage`] method allows: what was written and not synced is kept or lost
//! sector by sector, a name that came or went is there or not until its directory is synced, and a call that power ended in
//! the middle may or may not have happened.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use bbq_spool::{OpenMode, Storage, StorageFile};

use super::{PowerDisk, Random};

const SECTOR: usize = 512;
const BLOCK: usize = 4096;

/// What can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Create,
    Open,
    Read,
    Write,
    Sync,
    SetLen,
    Allocate,
    /// Of names: directories and their syncs, renames, removals.
    Names,
}

/// Fails calls of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) op: Op,
    /// Only on paths that contain this.
    pub(crate) path: &'static str,
    /// How many calls succeed before.
    pub(crate) after: u64,
    /// How many fail.
    pub(crate) times: u64,
    pub(crate) errno: i32,
}

pub(crate) const ENOSPC: i32 = 28;
pub(crate) const EIO: i32 = 5;

#[derive(Clone, Debug, Default)]
struct Inode {
    /// What a program reads.
    live: Vec<u8>,
    /// What a crash leaves.
    durable: Vec<u8>,
    /// Sectors in which they may differ, and a crash may keep either.
    dirty: BTreeSet<usize>,
    /// The lengths may differ, too.
    is_length_dirty: bool,
    /// Blocks that cannot be read.
    unreadable: BTreeSet<usize>,
}

impl Inode {
    fn new(contents: &[u8]) -> Inode {
        Inode { live: contents.to_vec(), durable: contents.to_vec(), ..Inode::default() }
    }

    fn keep(&mut self, sector: usize) {
        let from = (sector * SECTOR).min(self.live.len());
        let to = (from + SECTOR).min(self.live.len());
        if self.durable.len() < to {
            self.durable.resize(to, 0);
        }
        self.durable[from..to].copy_from_slice(&self.live[from..to]);
    }

    fn set_len(&mut self, bytes: usize) {
        self.is_length_dirty |= self.live.len() != bytes;
        self.live.resize(bytes, 0);
        self.dirty.retain(|sector| sector * SECTOR < bytes);
    }

    fn sync(&mut self) {
        for sector in std::mem::take(&mut self.dirty) {
            self.keep(sector);
        }
        if std::mem::take(&mut self.is_length_dirty) {
            self.durable.resize(self.live.len(), 0);
        }
    }

    /// Each dirty sector, and the length, reaches the disk or does not.
    fn settle(&mut self, random: &mut Random) {
        for sector in std::mem::take(&mut self.dirty) {
            if random.one_in(2) {
                self.keep(sector);
            }
        }
        if std::mem::take(&mut self.is_length_dirty) && random.one_in(2) {
            self.durable.resize(self.live.len(), 0);
        }
    }
}

/// A change of names that is not durable yet.
#[derive(Clone, Debug)]
struct Change {
    /// The name that goes.
    from: Option<PathBuf>,
    /// The name that comes, and for which file.
    to: Option<(PathBuf, usize)>,
}

impl Change {
    fn is_in(&self, directory: &Path) -> bool {
        let to = self.to.as_ref().map(|(path, _)| path);
        self.from.iter().chain(to).any(|path| path.parent() == Some(directory))
    }

    fn apply(self, names: &mut BTreeMap<PathBuf, usize>) {
        if let Some(from) = self.from {
            names.remove(&from);
        }
        names.extend(self.to);
    }
}

#[derive(Debug)]
struct State {
    inodes: Vec<Inode>,
    files: BTreeMap<PathBuf, usize>,
    directories: BTreeSet<PathBuf>,
    /// The names that a crash leaves, if it undoes every change that is not durable.
    durable_files: BTreeMap<PathBuf, usize>,
    changes: Vec<Change>,
    faults: Vec<Fault>,
    calls: u64,
    /// In the middle of which call power goes.
    crash_at: Option<u64>,
    dead: bool,
    random: Random,
}

/// What becomes of a call.
enum Fate {
    Done,
    /// Power goes now, and it may have happened.
    Cut {
        happened: bool,
    },
}

impl State {
    fn begin(&mut self, op: Op, path: &Path) -> io::Result<Fate> {
        if self.dead {
            return Err(io::Error::other("no power"));
        }
        // Reading changes nothing, so power need not go there.
        if !matches!(op, Op::Read | Op::Open) {
            self.calls += 1;
        }
        if self.crash_at.is_some_and(|at| self.calls >= at) {
            self.dead = true;
            return Ok(Fate::Cut { happened: self.random.one_in(2) });
        }
        let text = path.to_string_lossy();
        for fault in self.faults.iter_mut().filter(|fault| fault.op == op && text.contains(fault.path)) {
            if fault.after > 0 {
                fault.after -= 1;
            } else if fault.times > 0 {
                fault.times -= 1;
                return Err(io::Error::from_raw_os_error(fault.errno));
            }
        }
        Ok(Fate::Done)
    }

    /// A file that is durably there.
    fn add(&mut self, path: &Path, inode: Inode) -> usize {
        self.inodes.push(inode);
        let number = self.inodes.len() - 1;
        self.files.insert(path.to_owned(), number);
        self.durable_files.insert(path.to_owned(), number);
        number
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.files.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&mut self, change: Change) {
        change.clone().apply(&mut self.files);
        self.changes.push(change);
    }

    /// Does what power, if it goes in the middle, leaves done or not.
    fn change<T>(
        &mut self,
        op: Op,
        path: &Path,
        change: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.begin(op, path)? {
            Fate::Done => change(self),
            Fate::Cut { happened } => {
                if happened {
                    let _power_is_gone = change(self);
                }
                Err(io::Error::other("no power"))
            }
        }
    }
}

/// See the module. Clones are the same disk.
#[derive(Clone, Debug)]
pub(crate) struct CrashDisk(Arc<Mutex<State>>);

impl CrashDisk {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Power is back, and nothing was lost: as for a process that was killed.
    pub(crate) fn revive(&self) -> CrashDisk {
        let mut state = self.locked();
        state.dead = false;
        state.crash_at = None;
        drop(state);
        self.clone()
    }

    pub(crate) fn inject(&self, fault: Fault) {
        self.locked().faults.push(fault);
    }

    pub(crate) fn heal(&self) {
        self.locked().faults.clear();
    }

    /// Makes the blocks that these bytes of a file are in unreadable, or none.
    pub(crate) fn make_unreadable(&self, path: &Path, bytes: std::ops::Range<usize>) {
        let mut state = self.locked();
        let inode = state.find(path).unwrap();
        state.inodes[inode].unreadable = (bytes.start / BLOCK..bytes.end.div_ceil(BLOCK)).collect();
    }

    /// Names in a directory, sorted.
    pub(crate) fn names(&self, directory: &Path) -> Vec<PathBuf> {
        let state = self.locked();
        state.files.keys().filter(|path| path.parent() == Some(directory)).cloned().collect()
    }

    pub(crate) fn contents(&self, path: &Path) -> Vec<u8> {
        let state = self.locked();
        state.inodes[state.find(path).unwrap()].live.clone()
    }

    /// Changes a file behind everybody's back.
    pub(crate) fn put(&self, path: &Path, contents: &[u8]) {
        self.locked().add(path, Inode::new(contents));
    }

    pub(crate) fn take_away(&self, path: &Path) {
        let mut state = self.locked();
        state.files.remove(path).unwrap();
        state.durable_files.remove(path);
    }
}

impl PowerDisk for CrashDisk {
    fn new(seed: u64) -> CrashDisk {
        CrashDisk(Arc::new(Mutex::new(State {
            inodes: Vec::new(),
            files: BTreeMap::new(),
            directories: BTreeSet::from([PathBuf::from("/")]),
            durable_files: BTreeMap::new(),
            changes: Vec::new(),
            faults: Vec::new(),
            calls: 0,
            crash_at: None,
            dead: false,
            random: Random::new(seed),
        })))
    }

    fn crash_after(&self, calls: u64) {
        let mut state = self.locked();
        state.crash_at = Some(state.calls + calls);
    }

    fn crash(&self) {
        self.locked().dead = true;
    }

    fn is_dead(&self) -> bool {
        self.locked().dead
    }

    fn after_crash(&self) -> CrashDisk {
        let mut state = self.locked();
        state.dead = true;
        let mut random = state.random.clone();
        random.next();
        let mut inodes = state.inodes.clone();
        let mut files = state.durable_files.clone();
        for change in &state.changes {
            if random.one_in(2) {
                change.clone().apply(&mut files);
            }
        }
        for inode in &mut inodes {
            inode.settle(&mut random);
            inode.live.clone_from(&inode.durable);
        }
        let directories = state.directories.clone();
        drop(state);
        let disk = CrashDisk::new(random.next());
        let mut new = disk.locked();
        // Two names may be the same file, if a change of names was kept in part.
        new.inodes = inodes;
        new.durable_files.clone_from(&files);
        new.files = files;
        new.directories = directories;
        drop(new);
        disk
    }
}

impl Storage for CrashDisk {
    fn create_dir(&self, directory: &Path) -> io::Result<()> {
        // Durably: that a directory itself may be lost is another disk's business.
        self.locked().change(Op::Names, directory, |state| {
            if !directory.parent().is_some_and(|parent| state.directories.contains(parent)) {
                return Err(io::ErrorKind::NotFound.into());
            }
            match state.directories.insert(directory.to_owned()) {
                true => Ok(()),
                false => Err(io::ErrorKind::AlreadyExists.into()),
            }
        })
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        self.locked().change(Op::Names, directory, |state| {
            let changes = std::mem::take(&mut state.changes);
            let (synced, rest) = changes.into_iter().partition(|change| change.is_in(directory));
            state.changes = rest;
            let synced: Vec<Change> = synced;
            synced.into_iter().for_each(|change| change.apply(&mut state.durable_files));
            Ok(())
        })
    }

    fn available(&self, _directory: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut state = self.locked();
        state.begin(Op::Open, directory)?;
        if !state.directories.contains(directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = state.files.keys().chain(&state.directories);
        let inside = inside.filter(|path| path.parent() == Some(directory));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        let mut state = self.locked();
        let found = state.find(path);
        let inode = match (mode, found) {
            (OpenMode::Existing, found) | (OpenMode::ExistingOrNew, found @ Ok(_)) => {
                state.begin(Op::Open, path)?;
                found?
            }
            (OpenMode::New, Ok(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            // A spool has no such file.
            (OpenMode::Append, _) => return Err(io::ErrorKind::Unsupported.into()),
            (OpenMode::Empty, Ok(inode)) => state.change(Op::SetLen, path, |state| {
                state.inodes[inode].set_len(0);
                Ok(inode)
            })?,
            (OpenMode::New | OpenMode::ExistingOrNew | OpenMode::Empty, Err(_)) => {
                state.change(Op::Create, path, |state| {
                    if !state.directories.contains(path.parent().unwrap()) {
                        return Err(io::ErrorKind::NotFound.into());
                    }
                    state.inodes.push(Inode::default());
                    let inode = state.inodes.len() - 1;
                    state.rename(Change { from: None, to: Some((path.to_owned(), inode)) });
                    Ok(inode)
                })?
            }
        };
        Ok(Box::new(CrashFile { disk: self.clone(), inode, path: path.to_owned() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.locked().change(Op::Names, from, |state| {
            let inode = state.find(from)?;
            state.rename(Change { from: Some(from.to_owned()), to: Some((to.to_owned(), inode)) });
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.locked().change(Op::Names, path, |state| {
            state.find(path)?;
            state.rename(Change { from: Some(path.to_owned()), to: None });
            Ok(())
        })
    }
}

struct CrashFile {
    disk: CrashDisk,
    inode: usize,
    path: PathBuf,
}

impl StorageFile for CrashFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.locked();
        state.begin(Op::Read, &self.path)?;
        let inode = &state.inodes[self.inode];
        let rest = inode.live.get(offset as usize..).unwrap_or_default();
        let bytes = rest.len().min(buffer.len());
        let (first, last) = (offset as usize / BLOCK, (offset as usize + bytes).div_ceil(BLOCK));
        if bytes > 0 && inode.unreadable.range(first..last).next().is_some() {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.locked();
        let fate = state.begin(Op::Write, &self.path)?;
        let inode = &mut state.inodes[self.inode];
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        if inode.live.len() < to {
            inode.set_len(to);
        }
        inode.live[from..to].copy_from_slice(bytes);
        inode.dirty.extend(from / SECTOR..to.div_ceil(SECTOR));
        match fate {
            Fate::Done => Ok(()),
            Fate::Cut { .. } => Err(io::Error::other("no power")),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.locked();
        let fate = state.begin(Op::Sync, &self.path);
        if fate.is_err() && !state.dead {
            // The kernel forgets what it could not write: no later sync tries again.
            let mut random = state.random.clone();
            state.inodes[self.inode].settle(&mut random);
            state.random = random;
        }
        match fate? {
            Fate::Cut { happened: false } => return Err(io::Error::other("no power")),
            Fate::Done | Fate::Cut { .. } => {}
        }
        let dead = state.dead;
        state.inodes[self.inode].sync();
        if dead { Err(io::Error::other("no power")) } else { Ok(()) }
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let inode = self.inode;
        self.disk.locked().change(Op::Allocate, &self.path, |state| {
            let inode = &mut state.inodes[inode];
            inode.set_len(inode.live.len().max(bytes as usize));
            Ok(())
        })
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let inode = self.inode;
        self.disk.locked().change(Op::SetLen, &self.path, |state| {
            state.inodes[inode].set_len(bytes as usize);
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.locked().inodes[self.inode].live.len() as u64)
    }
}
