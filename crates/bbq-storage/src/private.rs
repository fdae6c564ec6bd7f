//! Directories that are their owner's alone: messages are in them that other users are not to read.

#[cfg(test)]
use std::fs;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// The permissions of everybody but the owner.
const OTHERS: u32 = 0o077;
/// Those of a directory, with its special bits.
const ALL: u32 = 0o7777;

/// Takes a directory's permissions from everybody but its owner. Returns what is to be told about it: that they had some, or that it is
/// another user's, who can change what is in it. What another user has is left as it is.
///
/// # Errors
/// It cannot be opened.
pub(crate) fn keep_private(directory: &Path) -> io::Result<Option<String>> {
    // By a descriptor: the name may lead elsewhere a moment later.
    let opened = File::open(directory)?;
    let metadata = opened.metadata()?;
    let (mode, own) = (metadata.mode() & ALL, rustix::process::geteuid().as_raw());
    if metadata.uid() != own {
        let owner = metadata.uid();
        return Ok(Some(format!(
            "it belongs to uid {owner}, who can read and change what is in it; this process is uid {own}: run `chown {own}` on it, or run bbq \
             as its owner"
        )));
    }
    if mode & OTHERS == 0 {
        return Ok(None);
    }
    Ok(Some(match opened.set_permissions(Permissions::from_mode(mode & !OTHERS)) {
        Ok(()) => format!("other users were let into it (mode {mode:04o}); now only its owner is"),
        // A file system without modes.
        Err(error) => {
            format!("other users are let into it (mode {mode:04o}), which cannot be changed: {error}")
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_might_do_is_taken_away_and_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let mode = || fs::metadata(directory.path()).unwrap().mode() & ALL;
        for (before, after) in [(0o755, 0o700), (0o2770, 0o2700), (0o701, 0o700)] {
            fs::set_permissions(directory.path(), Permissions::from_mode(before)).unwrap();
            let told = keep_private(directory.path()).unwrap().unwrap();
            assert!(told.contains(&format!("mode {before:04o}")), "{told}");
            assert_eq!(mode(), after);
            assert_eq!(keep_private(directory.path()).unwrap(), None);
        }
        // Only root can give it away.
        if std::os::unix::fs::chown(directory.path(), Some(1), None).is_ok() {
            fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
            let told = keep_private(directory.path()).unwrap().unwrap();
            assert!(told.contains("belongs to uid 1") && mode() == 0o755, "{told}");
        }
        assert!(keep_private(&directory.path().join("absent")).is_err());
    }
}
