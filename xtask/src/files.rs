//! The files of the repository: tracked ones, and untracked ones that are not ignored.

use std::path::Path;
use std::process::Command;

/// Their names, relative to `root`. A deleted file is listed until its deletion is committed.
pub(crate) fn of_repository(root: &Path) -> Result<Vec<String>, String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.output().map_err(|error| format!("cannot run git, which lists the files: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}
