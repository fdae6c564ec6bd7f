//! The files of a listener's TLS: where they are, and whether they have changed.

use std::path::PathBuf;

use bbq_spec::FileStamp;

/// The paths as they are configured. There is a key for each certificate, in the same order, and at least one of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Each with its chain.
    pub certificates: Vec<PathBuf>,
    /// The private keys.
    pub keys: Vec<PathBuf>,
    /// A CA in this file must have issued a client's certificate; `None` admits every client.
    pub client_ca: Option<PathBuf>,
}

/// Identifies a state of the files: another state has another stamp.
pub(crate) type Stamp = Vec<Option<FileStamp>>;

impl TlsFiles {
    /// The stamp of the files as they are now; `None` for those that do not exist.
    pub(crate) fn stamp(&self) -> Stamp {
        let paths = self.certificates.iter().chain(&self.keys).chain(&self.client_ca);
        paths.map(|path| FileStamp::of(path)).collect()
    }
}
