//! Errors of the spool.

use std::io;
use std::path::PathBuf;

/// Why the spool could not be opened or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the other fields")]
pub enum SpoolError {
    /// Another process uses the data directory.
    #[error("data directory {} is in use by {holder}; stop it, or choose another with --data", directory.display())]
    Locked {
        directory: PathBuf,
        /// "pid N", or "another process" if the process is not known.
        holder: String,
    },
    /// A system call failed.
    #[error("cannot {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// The data directory cannot be made or opened for writing.
    #[error(
        "cannot {action} {}; the data directory must be writable for this user: change its owner (chown), or choose another with --data",
        path.display()
    )]
    DataDirectory { action: &'static str, path: PathBuf, source: io::Error },
    /// An option is out of range.
    #[error("{name} is {found}; allowed: {least} to {most}")]
    OutOfRange { name: &'static str, found: u64, least: u64, most: u64 },
    /// The limits leave too little room.
    #[error(
        "the spool's limit of {bytes_max} bytes is below {needed}: {lanes} lanes with {per_lane} segments of \
             {segment_bytes} bytes each; raise spool.bytes_max or lower spool.segment_bytes"
    )]
    LimitTooSmall { bytes_max: u64, needed: u64, lanes: u64, per_lane: u64, segment_bytes: u64 },
}

impl SpoolError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> SpoolError {
        let path = path.into();
        move |source| SpoolError::Io { action, path, source }
    }
}

/// Why a lane did not take a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaneError {
    /// The buffer in memory is full, because the disk is slow or full. Retry when the lane reports progress.
    #[error("the lane's buffer is full")]
    Full,
    /// A write or sync failed. The lane acknowledges nothing more; a restart reads what the disk really has.
    #[error("the lane failed and accepts nothing until the server is restarted: {0}")]
    Failed(String),
}
