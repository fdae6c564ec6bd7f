//! A disk in memory that knows what is durable, can lose power, and can fail.
//!
//! It is as unkind as the contract of each [`Storage`] method allows: what was written and not synced is kept or lost
//! sector by sector, what was removed may be back, and a call that power ended in the middle may or may not have happened.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use bbq_spool::{Storage, StorageFile};

use super::Random;

const SECTOR: usize = 512;

/// What can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Create,
    Open,
    Read,
    Write,
    Sync,
    SetLen,
    Replace,
    Other,
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
}

impl Inode {
    fn new(contents: &[u8]) -> Inode {
        Inode { live: contents.to_vec(), durable: contents.to_vec(), dirty: BTreeSet::new() }
    }

    fn keep(&mut self, sector: usize) {
        let from = (sector * SECTOR).min(self.live.len());
        let to = (from + SECTOR).min(self.live.len());
        if self.durable.len() < to {
            self.durable.resize(to, 0);
        }
        self.durable[from..to].copy_from_slice(&self.live[from..to]);
    }

    /// Each dirty sector reaches the disk or does not.
    fn settle(&mut self, random: &mut Random) {
        for sector in std::mem::take(&mut self.dirty) {
            if random.one_in(2) {
                self.keep(sector);
            }
        }
    }
}

#[derive(Debug)]
struct State {
    inodes: Vec<Inode>,
    files: BTreeMap<PathBuf, usize>,
    directories: BTreeSet<PathBuf>,
    /// Removed since the start; any of them may be back after a crash.
    removed: Vec<(PathBuf, usize)>,
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

    fn add(&mut self, path: &Path, inode: Inode) -> usize {
        // A name that is durably something else now does not come back as what it was.
        self.removed.retain(|(removed, _)| removed != path);
        self.inodes.push(inode);
        self.files.insert(path.to_owned(), self.inodes.len() - 1);
        self.inodes.len() - 1
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.files.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Does what is durable on return, or what power left of it.
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
    pub(crate) fn new(seed: u64) -> CrashDisk {
        CrashDisk(Arc::new(Mutex::new(State {
            inodes: Vec::new(),
            files: BTreeMap::new(),
            directories: BTreeSet::new(),
            removed: Vec::new(),
            faults: Vec::new(),
            calls: 0,
            crash_at: None,
            dead: false,
            random: Random::new(seed),
        })))
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Power goes in the middle of a call from now on.
    pub(crate) fn crash_after(&self, calls: u64) {
        let mut state = self.locked();
        state.crash_at = Some(state.calls + calls);
    }

    /// Power goes now.
    pub(crate) fn crash(&self) {
        self.locked().dead = true;
    }

    /// What is found when power is back.
    pub(crate) fn after_crash(&self) -> CrashDisk {
        let mut state = self.locked();
        state.dead = true;
        let mut random = state.random.clone();
        random.next();
        let mut inodes = state.inodes.clone();
        let mut files = state.files.clone();
        for (path, inode) in &state.removed {
            if random.one_in(2) {
                files.entry(path.clone()).or_insert(*inode);
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
        for (path, inode) in files {
            new.add(&path, inodes[inode].clone());
        }
        new.directories = directories;
        drop(new);
        disk
    }

    pub(crate) fn inject(&self, fault: Fault) {
        self.locked().faults.push(fault);
    }

    pub(crate) fn heal(&self) {
        self.locked().faults.clear();
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
        self.locked().files.remove(path).unwrap();
    }
}

impl Storage for CrashDisk {
    fn create_dir_all(&self, directory: &Path) -> io::Result<()> {
        self.locked().change(Op::Other, directory, |state| {
            state.directories.extend(directory.ancestors().map(Path::to_owned));
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

    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn StorageFile>> {
        let inode = self.locked().change(Op::Create, path, |state| {
            if state.files.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            if !state.directories.contains(path.parent().unwrap()) {
                return Err(io::ErrorKind::NotFound.into());
            }
            Ok(state.add(path, Inode::new(&vec![0; bytes as usize])))
        })?;
        Ok(Box::new(CrashFile { disk: self.clone(), inode, path: path.to_owned() }))
    }

    fn recycle(&self, from: &Path, to: &Path, bytes: u64, head: &[u8]) -> io::Result<Box<dyn StorageFile>> {
        let inode = self.locked().change(Op::Create, to, |state| {
            if state.files.contains_key(to) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let inode = state.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
            state.removed.retain(|(removed, _)| removed != to);
            state.files.insert(to.to_owned(), inode);
            let file = &mut state.inodes[inode];
            // Whatever of the old content had not reached the disk has, or has not, and nobody cares.
            file.dirty.clear();
            for content in [&mut file.live, &mut file.durable] {
                content.resize(bytes as usize, 0);
                content[..head.len()].copy_from_slice(head);
            }
            Ok(inode)
        })?;
        Ok(Box::new(CrashFile { disk: self.clone(), inode, path: to.to_owned() }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let mut state = self.locked();
        state.begin(Op::Open, path)?;
        let inode = state.find(path)?;
        Ok(Box::new(CrashFile { disk: self.clone(), inode, path: path.to_owned() }))
    }

    fn replace(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        self.locked().change(Op::Replace, path, |state| {
            state.add(path, Inode::new(contents));
            Ok(())
        })
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut state = self.locked();
        state.begin(Op::Read, path)?;
        let inode = state.find(path)?;
        Ok(state.inodes[inode].live.clone())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.locked().change(Op::Other, from, |state| {
            let inode = state.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
            state.files.insert(to.to_owned(), inode);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.locked().change(Op::Other, path, |state| {
            let inode = state.files.remove(path).ok_or(io::ErrorKind::NotFound)?;
            state.removed.push((path.to_owned(), inode));
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
        let rest = state.inodes[self.inode].live.get(offset as usize..).unwrap_or_default();
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.locked();
        let fate = state.begin(Op::Write, &self.path)?;
        let inode = &mut state.inodes[self.inode];
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        if inode.live.len() < to {
            inode.live.resize(to, 0);
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
        let inode = &mut state.inodes[self.inode];
        for sector in std::mem::take(&mut inode.dirty) {
            inode.keep(sector);
        }
        if dead { Err(io::Error::other("no power")) } else { Ok(()) }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let inode = self.inode;
        self.disk.locked().change(Op::SetLen, &self.path, |state| {
            let inode = &mut state.inodes[inode];
            inode.live.resize(bytes as usize, 0);
            inode.durable.resize(bytes as usize, 0);
            inode.dirty.retain(|sector| sector * SECTOR < bytes as usize);
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.locked().inodes[self.inode].live.len() as u64)
    }
}
