//! If this fails, two servers write to one data directory, or somebody who reads dead letters keeps their sink from writing.

use bbq_spool::{DirectoryLock, SpoolError};

#[test]
fn the_second_is_told_who_was_first() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("not/there/yet");
    let first = DirectoryLock::take(&data).unwrap();
    // flock(2) belongs to the open file, so a second take here is as good as one in another process.
    let error = DirectoryLock::take(&data).unwrap_err();
    assert!(matches!(&error, SpoolError::Locked { directory, .. } if *directory == data));
    assert!(error.to_string().contains(&format!("in use by pid {};", std::process::id())), "{error}");
    drop(first);
    DirectoryLock::take(&data).unwrap();
}

#[test]
fn a_writer_that_shares_meets_readers_and_no_repair() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("not/there/yet");
    let writer = DirectoryLock::share_created(&data).unwrap();
    let reader = DirectoryLock::share(&data).unwrap();
    assert!(matches!(DirectoryLock::take(&data), Err(SpoolError::Locked { .. })), "a repair has to wait");
    // A spool is opened again for each new listener, whoever reads.
    drop(writer);
    DirectoryLock::share_created(&data).unwrap();
    drop(reader);
    let _repair = DirectoryLock::take(&data).unwrap();
    assert!(matches!(DirectoryLock::share_created(&data), Err(SpoolError::Locked { .. })));
}

#[test]
fn nobody_else_gets_into_a_data_directory() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    drop(DirectoryLock::take(&data).unwrap());
    assert_eq!((mode(&data), mode(&data.join("lock"))), (0o700, 0o600));
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    drop(DirectoryLock::take(&data).unwrap());
    assert_eq!(mode(&data), 0o700);
    // A link in place of the lock file, to a file that is not to be written over.
    let precious = directory.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    std::fs::remove_file(data.join("lock")).unwrap();
    symlink(&precious, data.join("lock")).unwrap();
    let error = DirectoryLock::take(&data).unwrap_err();
    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(error.to_string().contains("lock") && cause.contains("symbolic link"), "{error}: {cause}");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
}
