//! A second disk that crashes, whose idea of durability is somebody else's: turmoil-fs. What is lost there is what was not
//! synced, and of an unsynced write a beginning may be there; some writes are durable by chance.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use bbq_spool::{OpenMode, Storage, StorageFile};
use std::os::unix::fs::FileExt;
use turmoil_fs::Fs;
use turmoil_fs::shim::std::fs as shim;

use super::{PowerDisk, Random};

const SECTOR: u64 = 512;
/// How likely a write is durable without a sync.
const LUCK: f64 = 0.05;

/// See the module. Clones are the same disk. Calls run one at a time, because a rename changes the name in turmoil-fs
/// first, and only then the name of the open file here.
#[derive(Clone)]
pub(crate) struct TurmoilDisk {
    fs: Fs,
    state: Arc<Mutex<State>>,
}

struct State {
    calls: u64,
    /// In the middle of which call power goes.
    crash_at: Option<u64>,
    dead: bool,
    random: Random,
    /// The names of open files: turmoil-fs knows an open file by the name that it was opened with.
    open: Vec<Weak<Mutex<PathBuf>>>,
}

impl State {
    /// Adds a file that was opened with this name.
    fn add(&mut self, name: &Path) -> Arc<Mutex<PathBuf>> {
        let name = Arc::new(Mutex::new(name.to_owned()));
        self.open.retain(|open| open.strong_count() > 0);
        self.open.push(Arc::downgrade(&name));
        name
    }
}

impl TurmoilDisk {
    fn on(fs: Fs, random: Random) -> TurmoilDisk {
        let state = State { calls: 0, crash_at: None, dead: false, random, open: Vec::new() };
        TurmoilDisk { fs, state: Arc::new(Mutex::new(state)) }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn look<T>(&self, look: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.locked();
        if state.dead {
            return Err(io::Error::other("no power"));
        }
        let _entered = self.fs.enter();
        look(&mut state).map_err(named)
    }

    /// Does what power, if it goes in the middle, leaves done or not.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.locked();
        if state.dead {
            return Err(io::Error::other("no power"));
        }
        state.calls += 1;
        let is_cut = state.crash_at.is_some_and(|at| state.calls >= at);
        state.dead = is_cut;
        if is_cut && state.random.one_in(2) {
            return Err(io::Error::other("no power"));
        }
        let _entered = self.fs.enter();
        let changed = change(&mut state);
        if is_cut { Err(io::Error::other("no power")) } else { changed.map_err(named) }
    }
}

/// turmoil-fs has the system's texts, not always its kinds.
fn named(error: io::Error) -> io::Error {
    match error.to_string().as_str() {
        "No such file or directory" => io::ErrorKind::NotFound.into(),
        "File exists" => io::ErrorKind::AlreadyExists.into(),
        _ => error,
    }
}

impl PowerDisk for TurmoilDisk {
    fn new(seed: u64) -> TurmoilDisk {
        let fs = Fs::builder().seed(seed).sync_probability(LUCK).block_size(SECTOR).build();
        TurmoilDisk::on(fs, Random::new(seed))
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

    fn after_crash(&self) -> TurmoilDisk {
        let mut state = self.locked();
        state.dead = true;
        self.fs.crash();
        state.random.next();
        TurmoilDisk::on(self.fs.clone(), state.random.clone())
    }
}

impl Storage for TurmoilDisk {
    fn create_dir(&self, directory: &Path) -> io::Result<()> {
        self.change(|_| shim::create_dir(directory))
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        self.change(|_| shim::sync_dir(directory))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.look(|_| {
            let names = shim::read_dir(directory)?.map(|entry| Ok(entry?.file_name().into_string().unwrap()));
            names.collect()
        })
    }

    fn available(&self, _directory: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        let mut options = shim::OpenOptions::new();
        options.read(true).write(true);
        let opened = |options: &shim::OpenOptions, state: &mut State| {
            options.open(path)?;
            Ok(state.add(path))
        };
        let name = match mode {
            OpenMode::Existing => self.look(|state| opened(&options, state))?,
            OpenMode::New => self.change(|state| opened(options.create_new(true), state))?,
            OpenMode::ExistingOrNew | OpenMode::Lock => {
                self.change(|state| opened(options.create(true).truncate(false), state))?
            }
            OpenMode::Append | OpenMode::Directory => return Err(io::ErrorKind::Unsupported.into()),
            OpenMode::Empty => self.change(|state| opened(options.create(true).truncate(true), state))?,
        };
        Ok(Box::new(File { disk: self.clone(), name }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|state| {
            shim::rename(from, to)?;
            // It forgets a renamed file for good when the directory that the file left is synced, by another thread, before the
            // one that it entered.
            if let Some(entered) = to.parent()
                && from.parent() != Some(entered)
            {
                shim::sync_dir(entered)?;
            }
            for name in state.open.iter().filter_map(Weak::upgrade) {
                let mut name = name.lock().unwrap();
                if *name == from {
                    to.clone_into(&mut name);
                }
            }
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|_| {
            shim::remove_file(path)?;
            // It loses what is written to a new file of this name before the directory is synced.
            path.parent().map_or(Ok(()), shim::sync_dir)
        })
    }
}

struct File {
    disk: TurmoilDisk,
    name: Arc<Mutex<PathBuf>>,
}

impl File {
    fn opened(&self) -> io::Result<shim::File> {
        shim::OpenOptions::new().read(true).write(true).open(&*self.name.lock().unwrap())
    }
}

impl StorageFile for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.look(|_| self.opened()?.read_at(buffer, offset))
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.change(|_| self.opened()?.write_all_at(bytes, offset))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.change(|_| self.opened()?.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.disk.change(|_| self.opened()?.sync_all())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        if self.len()? >= bytes { Ok(()) } else { self.set_len(bytes) }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.disk.change(|_| self.opened()?.set_len(bytes))
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.look(|_| Ok(self.opened()?.metadata()?.len()))
    }
}
