//! A directory of a sample's own, on the disk that is measured; removed when dropped.

use std::path::Path;

use anyhow::Context;
use tempfile::TempDir;

/// Makes one.
pub(crate) fn make(parent: &Path) -> anyhow::Result<TempDir> {
    tempfile::Builder::new().prefix("bbq-bench-").tempdir_in(parent).with_context(|| {
        format!("cannot create a directory in {}: choose another with --data", parent.display())
    })
}
