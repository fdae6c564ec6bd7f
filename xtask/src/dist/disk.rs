//! Files and paths, with errors that name them.

use std::fs;
use std::path::Path;

pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

pub(super) fn text_of(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

pub(super) fn write(path: &Path, bytes: &str) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

pub(super) fn create(directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory).map_err(|error| format!("cannot create {}: {error}", directory.display()))
}

/// Creates a directory, or deletes what is in it.
pub(super) fn empty(directory: &Path) -> Result<(), String> {
    if directory.exists() {
        fs::remove_dir_all(directory)
            .map_err(|error| format!("cannot empty {}: {error}", directory.display()))?;
    }
    create(directory)
}
