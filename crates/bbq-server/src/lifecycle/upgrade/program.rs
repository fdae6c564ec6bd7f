//! How this process was started, so that its successor is started the same way.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The program's path and arguments.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) path: PathBuf,
    pub(super) arguments: Vec<OsString>,
}

impl Program {
    /// Returns the program of this process. To be called at the start, before the file can be replaced.
    ///
    /// The path is the one by which the program was called, if it leads to the running file. If that is a symbolic link, it may lead
    /// to a new version later, which is then the successor.
    ///
    /// # Errors
    /// /proc does not show the running file.
    pub fn of_this_process() -> io::Result<Program> {
        let running = env::current_exe()?;
        let mut arguments = env::args_os();
        let called = arguments.next().map(PathBuf::from).and_then(|called| found(&called));
        let is_running = |path: &PathBuf| is_same_file(path, &running);
        Ok(Program { path: called.filter(is_running).unwrap_or(running), arguments: arguments.collect() })
    }
}

/// Finds the path of a program that was called by this name, as a shell does.
fn found(called: &Path) -> Option<PathBuf> {
    if called.components().count() > 1 {
        return std::path::absolute(called).ok();
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(called)).find(|path| path.is_file())
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
    identity(one).is_some_and(|identity_of_one| identity(other) == Some(identity_of_one))
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.path.display().fmt(f)
    }
}
