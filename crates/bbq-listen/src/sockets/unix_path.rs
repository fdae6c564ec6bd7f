//! The file of a unix socket. A stale file of a dead process is removed; a file that is in use or no socket is an error. The file
//! is removed when its group closes.
//!
//! Between the check of a stale file and its removal, another process may create its own there. The window is a few microseconds,
//! and only concurrent starts on one path can meet it. Hold a lock of your own if yours do.
//!
//! Invariant: only sockets are removed, and at the end only the one that this group created.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::diagnose::holder::Holder;
use crate::{Address, ListenError};

/// Frees `path` for a bind: removes a stale socket file, refuses everything else that is there.
pub(crate) fn make_way(address: &Address, path: &Path) -> Result<(), ListenError> {
    let system = |step, source| ListenError::System { address: address.clone(), step, source };
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system("lstat", error)),
    };
    if !metadata.file_type().is_socket() {
        return Err(ListenError::NotASocket { path: path.to_owned() });
    }
    match probe(path) {
        Err(Errno::CONNREFUSED) => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(system("unlink", error)),
            _ => Ok(()),
        },
        Err(Errno::NOENT) => Ok(()),
        // EPROTOTYPE: a stream socket is in use. EPERM, EACCES and all others: it may be in use.
        _ => Err(ListenError::AddressInUse { address: address.clone(), holder: Holder::of(address) }),
    }
}

/// Connects a datagram socket: that also finds a stream socket in use (EPROTOTYPE), without making a connection to it.
fn probe(path: &Path) -> rustix::io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

/// A socket file. Dropping it removes the file if it is ours, unless another file has replaced it. Drop it while the socket is
/// open; otherwise another file may have got the same inode number.
#[derive(Debug)]
pub(crate) struct OwnedPath {
    path: PathBuf,
    /// Device and inode of the file that the bind created.
    identity: (u64, u64),
    ours: AtomicBool,
}

impl OwnedPath {
    /// For a file that bind(2) has just created.
    pub(crate) fn created(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)?, ours: AtomicBool::new(true) })
    }

    /// For the file of a socket that another program opened, and removes.
    pub(crate) fn adopted(path: &Path) -> io::Result<Self> {
        let path = Self::created(path)?;
        path.set_ours(false);
        Ok(path)
    }

    /// The path, unless another file is there now.
    pub(crate) fn present(&self) -> Option<&Path> {
        identity(&self.path).is_ok_and(|now| now == self.identity).then_some(&self.path)
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.ours.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ours(&self, ours: bool) {
        self.ours.store(ours, Ordering::Relaxed);
    }
}

impl Drop for OwnedPath {
    fn drop(&mut self) {
        if self.is_ours()
            && let Some(path) = self.present()
        {
            // The next start removes a stale file.
            let _ = fs::remove_file(path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}
