//! The state of a disk, and the effect of each call.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bbq_spool::SteppedTime;
use bbq_storage::OpenMode;

use super::faults::{Cut, Faults};
use super::inode::{Inode, Settling};
use super::names::{Names, Node};
use crate::random::Random;

pub(super) const EIO: i32 = 5;

/// The fate of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The call succeeds.
    Done,
    /// The process ends in the middle of the call.
    Cut,
}

/// The contents of files that were removed, by their names and inodes.
type Removed = BTreeMap<(PathBuf, usize), Vec<u8>>;

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) inodes: Vec<Inode>,
    pub(super) names: Names,
    pub(super) faults: Faults,
    pub(super) random: Random,
    /// The number of calls that change something.
    pub(super) calls: u64,
    /// The call at which the process ends, and how.
    pub(super) armed: Option<(u64, Cut)>,
    /// How the process has ended.
    pub(super) halted: Option<Cut>,
    /// The number of the present process. Handles of earlier processes fail.
    pub(super) process: u64,
    /// The number of handles that were given out.
    pub(super) handles: u64,
    /// Which disk it is: files of two disks are never the same file, whatever their inodes are.
    pub(super) id: u64,
    /// The clock of modification times.
    pub(super) clock: Option<Arc<SteppedTime>>,
    /// A directory, and the contents of files that were removed from it. The names may be those of later files.
    pub(super) kept: Option<(PathBuf, Removed)>,
}

impl State {
    pub(super) fn new(random: Random) -> State {
        State {
            id: random.clone().next(),
            inodes: Vec::new(),
            names: Names::new(),
            faults: Faults::default(),
            random,
            calls: 0,
            armed: None,
            halted: None,
            process: 0,
            handles: 0,
            clock: None,
            kept: None,
        }
    }

    pub(super) fn is_running(&self) -> io::Result<()> {
        if self.halted.is_some() { Err(io::Error::other("the process has ended")) } else { Ok(()) }
    }

    /// Begins a changing call that fails with this probability.
    fn begin(&mut self, fails_of_65536: u32) -> io::Result<Fate> {
        self.is_running()?;
        self.calls += 1;
        if let Some((at, cut)) = self.armed
            && self.calls >= at
        {
            self.halted = Some(cut);
            return Ok(Fate::Cut);
        }
        self.roll(fails_of_65536)?;
        Ok(Fate::Done)
    }

    pub(super) fn roll(&mut self, fails_of_65536: u32) -> io::Result<()> {
        if self.random.chance(fails_of_65536) { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }

    /// Makes an atomic change. If the process ends in the middle, the change may or may not happen.
    pub(super) fn change<T>(
        &mut self,
        fails: u32,
        change: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.begin(fails)? {
            Fate::Done => change(self),
            Fate::Cut => {
                if self.random.one_in(2) {
                    let _nobody_hears = change(self);
                }
                Err(io::Error::other("the process has ended"))
            }
        }
    }

    pub(super) fn used(&self) -> u64 {
        let named = self.names.live_files();
        let counts = |(file, inode): (usize, &Inode)| {
            if inode.opens > 0 || named.contains(&file) { inode.space() } else { 0 }
        };
        self.inodes.iter().enumerate().map(counts).sum()
    }

    pub(super) fn available(&self) -> u64 {
        self.faults.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()))
    }

    /// Whether a file may grow to `bytes` bytes.
    pub(super) fn has_room(&self, file: usize, bytes: u64) -> io::Result<()> {
        let inode = &self.inodes[file];
        let more = inode.space_with(bytes) - inode.space();
        if more > 0 && more > self.available() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<usize> {
        match self.names.find(path)? {
            Node::File(file) => Ok(file),
            Node::Directory(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn new_file(&mut self, path: &Path) -> io::Result<usize> {
        self.names.add(path, Node::File(self.inodes.len()))?;
        self.inodes.push(Inode::default());
        Ok(self.inodes.len() - 1)
    }

    pub(super) fn open(&mut self, path: &Path, mode: OpenMode) -> io::Result<usize> {
        let file = match (self.file(path), mode) {
            (_, OpenMode::Directory) => return Err(io::ErrorKind::Unsupported.into()),
            (found, OpenMode::Existing) | (found @ Ok(_), OpenMode::ExistingOrNew | OpenMode::Lock) => {
                self.is_running()?;
                self.roll(self.faults.open)?;
                found?
            }
            (Ok(_), OpenMode::New) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Ok(file), OpenMode::Empty) => self.change(0, |state| {
                state.inodes[file].set_len(0);
                Ok(file)
            })?,
            (Ok(file), OpenMode::Append) => {
                self.is_running()?;
                self.roll(self.faults.open)?;
                file
            }
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => {
                self.change(self.faults.open, |state| state.new_file(path))?
            }
            (Err(error), _) => return Err(error),
        };
        self.inodes[file].opens += 1;
        Ok(file)
    }

    pub(super) fn sync(&mut self, file: usize) -> io::Result<()> {
        let fate = match self.begin(self.faults.sync) {
            Err(error) if self.halted.is_none() => {
                let mut random = self.random.fork();
                self.inodes[file].fail_sync(&mut random);
                return Err(error);
            }
            fate => fate?,
        };
        match fate {
            Fate::Done if self.faults.lies => Ok(()),
            Fate::Done => {
                self.inodes[file].sync();
                Ok(())
            }
            Fate::Cut => {
                if self.random.one_in(2) {
                    self.inodes[file].sync();
                }
                Err(io::Error::other("the process has ended"))
            }
        }
    }

    pub(super) fn write(&mut self, file: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let fate = self.begin(self.faults.write)?;
        let clock = self.clock.as_ref();
        self.inodes[file].modified_ns = clock.map_or(0, |clock| clock.unix_ns.load(Ordering::Relaxed));
        if self.faults.believes_cache && self.inodes[file].holds(offset, bytes) {
            return Ok(());
        }
        if let Err(full) = self.has_room(file, offset + bytes.len() as u64) {
            // A part of the bytes may fit.
            let part = self.random.index(bytes.len().min(4096));
            if self.has_room(file, offset + part as u64).is_ok() {
                self.inodes[file].write(offset, &bytes[..part]);
            }
            return Err(full);
        }
        match fate {
            Fate::Done => {
                self.inodes[file].write(offset, bytes);
                Ok(())
            }
            Fate::Cut => {
                let part = self.random.index(bytes.len() + 1);
                self.inodes[file].write(offset, &bytes[..part]);
                Err(io::Error::other("the process has ended"))
            }
        }
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let node = self.names.remove(path)?;
        if let (Node::File(file), Some((directory, kept))) = (node, &mut self.kept)
            && path.parent() == Some(directory)
        {
            let inode = &self.inodes[file];
            let mut bytes = vec![0; inode.len() as usize];
            inode.read(0, &mut bytes);
            kept.insert((path.to_owned(), file), bytes);
        }
        Ok(())
    }

    pub(super) fn lose_power(&mut self) {
        let mut random = self.random.fork();
        let settling = match random.below(4) {
            0 => Settling::All,
            1 => Settling::Nothing,
            _ => Settling::EachSector,
        };
        self.lose_unsynced(settling, &mut random);
    }

    /// What a power failure does.
    pub(super) fn lose_unsynced(&mut self, settling: Settling, random: &mut Random) {
        self.names.lose_power(random);
        let files = self.names.live_files();
        for (file, inode) in self.inodes.iter_mut().enumerate() {
            if files.contains(&file) {
                inode.lose_power(settling, random);
            } else {
                *inode = Inode::default();
            }
        }
    }
}
