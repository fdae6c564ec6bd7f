//! Why a reader cannot be opened.

use std::io;
use std::path::PathBuf;

/// Why a reader cannot be opened. No file was read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The catalog cannot be read or created.
    #[error("cannot use the catalog of the reader in {directory:?}; check the directory and its disk")]
    Catalog {
        /// The directory of catalogs.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no journalctl.
    #[error(
        "cannot find {program:?}, which reads the journal; install systemd, or write its path as journalctl=PATH"
    )]
    NoJournalctl {
        /// The program, or its name in PATH.
        program: PathBuf,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
}
