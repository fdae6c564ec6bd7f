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
