//! If this fails, two servers write to one data directory.

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
