//! Events of directories and of files behind links, by inotify. It misses what happens on network file systems, and what overflows its
//! queue: a scan finds that.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// The index of a file of the reader.
pub(crate) type FileIndex = usize;

/// Events of one call.
const BUFFER_BYTES: usize = 16 * 1024;
/// Calls in a row, so that a busy directory does not keep the reader from reading.
const CALLS_MAX: usize = 16;

/// File systems without events for what others change, by the number in statfs(2): NFS, SMB, SMB 2, CIFS, FUSE, 9p, Ceph, AFS, VirtualBox.
const BLIND: [u32; 9] = [
    0x6969,
    0x517b,
    0xfe53_4d42,
    0xff53_4d42,
    0x6573_5546,
    0x0102_1997,
    0x00c3_6400,
    0x5346_414f,
    0x786f_4256,
];

/// What events say.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Files with new bytes, or fewer; a file may be listed several times.
    pub(crate) files: Vec<FileIndex>,
    /// Names came or went, or events were lost.
    pub(crate) needs_scan: bool,
}

/// The watches of a reader.
pub(crate) struct Watcher {
    inotify: OwnedFd,
    watches: HashMap<i32, Watched>,
    directories: HashMap<PathBuf, i32>,
    /// Why a watch could not be added; scans have to do.
    pub(crate) problem: Option<String>,
}

struct Watched {
    path: PathBuf,
    /// Files by their names in the directory; the name of a file that is watched itself is empty.
    names: HashMap<OsString, FileIndex>,
    is_used: bool,
}

impl Watcher {
    pub(crate) fn new() -> io::Result<Watcher> {
        Ok(Watcher {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            watches: HashMap::new(),
            directories: HashMap::new(),
            problem: None,
        })
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Begins a list of what is to be watched. What is not named until [`Watcher::finish`] is watched no longer.
    pub(crate) fn begin(&mut self) {
        self.problem = None;
        for watched in self.watches.values_mut() {
            watched.is_used = false;
            watched.names.clear();
        }
    }

    /// Watches a directory. Returns whether the watch is new: names that came just before it are not told.
    pub(crate) fn directory(&mut self, path: &Path) -> bool {
        let before = self.watches.len();
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        self.add(path, flags);
        self.watches.len() > before
    }

    /// Whether changes of this directory may come from another machine, or from a program, without an event.
    pub(crate) fn is_blind(path: &Path) -> bool {
        rustix::fs::statfs(path).is_ok_and(|found| BLIND.contains(&(found.f_type as u32)))
    }

    /// Notes which file has this name, and watches the file itself if the name is a link or its directory is not watched.
    pub(crate) fn file(&mut self, path: &Path, is_link: bool, index: FileIndex) {
        let watch = path.parent().and_then(|parent| self.directories.get(parent)).copied();
        if let (Some(watch), Some(name)) = (watch, path.file_name())
            && let Some(watched) = self.watches.get_mut(&watch)
        {
            watched.names.insert(name.to_owned(), index);
        }
        if is_link && let Some(watch) = self.add(path, WatchFlags::MODIFY) {
            // Two links to one file have one watch.
            if let Some(watched) = self.watches.get_mut(&watch) {
                watched.names.insert(OsString::new(), index);
            }
        }
    }

    /// Ends the list.
    pub(crate) fn finish(&mut self) {
        let unused: Vec<i32> =
            self.watches.iter().filter(|(_, watched)| !watched.is_used).map(|(watch, _)| *watch).collect();
        for watch in unused {
            self.watches.remove(&watch);
            // It fails if the directory is gone.
            let _may_be_gone = inotify::remove_watch(&self.inotify, watch);
        }
        let Watcher { watches, directories, .. } = self;
        directories.retain(|path, watch| watches.get(watch).is_some_and(|watched| watched.path == *path));
    }

    fn forget(&mut self, watch: i32) {
        if let Some(watched) = self.watches.remove(&watch)
            && self.directories.get(&watched.path) == Some(&watch)
        {
            self.directories.remove(&watched.path);
        }
    }

    fn add(&mut self, path: &Path, flags: WatchFlags) -> Option<i32> {
        let watch = match inotify::add_watch(&self.inotify, path, flags) {
            Ok(watch) => watch,
            Err(Errno::NOENT | Errno::NOTDIR) => return None,
            Err(error) => {
                let remedy =
                    if error == Errno::NOSPC { "; raise the sysctl fs.inotify.max_user_watches" } else { "" };
                self.problem.get_or_insert_with(|| {
                    format!(
                        "cannot watch {}: {error}{remedy}. New lines are found by scans alone",
                        path.display()
                    )
                });
                return None;
            }
        };
        let watched = self.watches.entry(watch).or_insert_with(|| Watched {
            path: path.to_owned(),
            names: HashMap::new(),
            is_used: true,
        });
        watched.is_used = true;
        if watched.path != path {
            // The directory was renamed, or has two names.
            watched.path = path.to_owned();
        }
        self.directories.insert(path.to_owned(), watch);
        Some(watch)
    }

    /// Takes the events that are there, up to a number of them.
    pub(crate) fn take(&mut self, changes: &mut Changes) {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        for _ in 0..CALLS_MAX {
            let mut gone = Vec::new();
            let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
            let is_empty = loop {
                let event = match reader.next() {
                    Ok(event) => event,
                    Err(Errno::INTR) => continue,
                    Err(_) => break true,
                };
                note(&self.watches, &event, changes, &mut gone);
                if reader.is_buffer_empty() {
                    break false;
                }
            };
            gone.into_iter().for_each(|watch| self.forget(watch));
            if is_empty {
                return;
            }
        }
    }
}

fn note(
    watches: &HashMap<i32, Watched>,
    event: &inotify::Event<'_>,
    changes: &mut Changes,
    gone: &mut Vec<i32>,
) {
    let kinds = event.events();
    if kinds.contains(ReadFlags::IGNORED) {
        gone.push(event.wd());
    }
    if !kinds.contains(ReadFlags::MODIFY) {
        changes.needs_scan = true;
        return;
    }
    let name = event.file_name().map_or(OsStr::new(""), |name| OsStr::from_bytes(name.to_bytes()));
    if let Some(index) = watches.get(&event.wd()).and_then(|watched| watched.names.get(name)) {
        changes.files.push(*index);
    }
}
