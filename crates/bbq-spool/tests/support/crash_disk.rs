//! The simulated disk with faults of chosen calls: it knows what is durable, loses power, and fails.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bbq_simulation::disk::{Cut, SimDisk};
use bbq_spool::{OpenMode, Storage, StorageFile};
use bbq_storage::forwarding::{ForwardingFile, ForwardingStorage};

use super::{PowerDisk, Random};

/// The kinds of calls that can fail.
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

/// See the module. Clones are the same disk.
#[derive(Clone, Debug)]
pub(crate) struct CrashDisk {
    disk: SimDisk,
    faults: Arc<Mutex<Vec<Fault>>>,
}

impl CrashDisk {
    fn on(disk: SimDisk) -> CrashDisk {
        CrashDisk { disk, faults: Arc::default() }
    }

    /// Fails the call if a fault says so.
    fn check(&self, op: Op, path: &Path) -> io::Result<()> {
        let text = path.to_string_lossy();
        let mut faults = self.faults.lock().unwrap();
        for fault in faults.iter_mut().filter(|fault| fault.op == op && text.contains(fault.path)) {
            if fault.after > 0 {
                fault.after -= 1;
            } else if fault.times > 0 && !self.is_dead() {
                fault.times -= 1;
                return Err(io::Error::from_raw_os_error(fault.errno));
            }
        }
        Ok(())
    }

    /// The process is killed: nothing is lost.
    pub(crate) fn kill(&self) {
        self.disk.cut(Cut::Kill);
    }

    /// Starts the next process after a kill.
    pub(crate) fn restart(&self) {
        self.disk.restart();
    }

    pub(crate) fn inject(&self, fault: Fault) {
        self.faults.lock().unwrap().push(fault);
    }

    pub(crate) fn heal(&self) {
        self.faults.lock().unwrap().clear();
    }

    /// Makes these bytes of a file unreadable, and no others.
    pub(crate) fn make_unreadable(&self, path: &Path, bytes: Range<usize>) {
        assert!(self.disk.set_unreadable(path, bytes));
    }

    /// Files in a directory, sorted.
    pub(crate) fn names(&self, directory: &Path) -> Vec<PathBuf> {
        self.disk.names(directory).into_iter().filter(|path| self.disk.contents(path).is_ok()).collect()
    }

    pub(crate) fn contents(&self, path: &Path) -> Vec<u8> {
        self.disk.contents(path).unwrap()
    }

    /// Creates or replaces a file durably, as another program would.
    pub(crate) fn put(&self, path: &Path, contents: &[u8]) {
        self.disk.put_file(path, contents).unwrap();
    }

    pub(crate) fn take_away(&self, path: &Path) {
        assert!(self.disk.take_away(path));
    }
}

impl PowerDisk for CrashDisk {
    fn new(seed: u64) -> CrashDisk {
        CrashDisk::on(SimDisk::new(Random::new(seed)))
    }

    fn crash_after(&self, calls: u64) {
        self.disk.cut_after(calls, Cut::Power);
    }

    fn crash(&self) {
        self.disk.cut(Cut::Power);
    }

    fn is_dead(&self) -> bool {
        self.disk.halted().is_some()
    }

    fn after_crash(&self) -> CrashDisk {
        self.crash();
        let disk = self.disk.fork();
        disk.restart();
        CrashDisk::on(disk)
    }
}

impl ForwardingStorage for CrashDisk {
    fn inner(&self) -> &dyn Storage {
        &self.disk
    }

    fn create_dir(&self, directory: &Path) -> io::Result<()> {
        self.check(Op::Names, directory)?;
        self.disk.create_dir(directory)
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        self.check(Op::Names, directory)?;
        self.disk.sync_dir(directory)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.check(Op::Open, directory)?;
        self.disk.list(directory)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        let op = match (mode, self.disk.contents(path).is_ok()) {
            (OpenMode::Existing, _) | (_, true) => Op::Open,
            (_, false) => Op::Create,
        };
        self.check(op, path)?;
        Ok(Box::new(CrashFile {
            file: self.disk.open(path, mode)?,
            disk: self.clone(),
            path: path.to_owned(),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(Op::Names, from)?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check(Op::Names, path)?;
        self.disk.remove(path)
    }
}

struct CrashFile {
    file: Box<dyn StorageFile>,
    disk: CrashDisk,
    path: PathBuf,
}

impl ForwardingFile for CrashFile {
    fn inner(&self) -> &dyn StorageFile {
        &*self.file
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.check(Op::Read, &self.path)?;
        self.file.read_at(offset, buffer)
    }

    fn read_large_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        ForwardingFile::read_at(self, offset, buffer)
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.check(Op::Write, &self.path)?;
        self.file.write_all_at(offset, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.check(Op::Sync, &self.path).inspect_err(|_| {
            // The kernel marks pages clean that it could not write: no later sync writes them.
            self.disk.disk.set_faults(|faults| faults.sync = 65_536);
            let _failed = self.file.sync_data();
            self.disk.disk.set_faults(|faults| faults.sync = 0);
        })?;
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        ForwardingFile::sync_data(self)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.disk.check(Op::Allocate, &self.path)?;
        self.file.allocate(bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.disk.check(Op::SetLen, &self.path)?;
        self.file.set_len(bytes)
    }
}
