//! The ways in which files are rotated.

/// Each file is rotated in one way only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The file gets another name, and a new one takes its place. Its program writes on to the old one for a moment.
    Rename,
    /// The same; then the old file is compressed and deleted.
    Compress,
    /// The file is deleted, and a new one takes its place.
    Delete,
    /// The file is copied and then truncated, as `copytruncate` of logrotate does.
    CopyTruncate,
}

impl Kind {
    pub(super) const ALL: [Kind; 4] = [Kind::Rename, Kind::Compress, Kind::Delete, Kind::CopyTruncate];

    /// The name of the directory of its files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Rename => "rename",
            Kind::Compress => "compress",
            Kind::Delete => "delete",
            Kind::CopyTruncate => "copytruncate",
        }
    }

    /// How it is called in the report.
    pub(super) fn title(self) -> &'static str {
        match self {
            Kind::Rename => "rename, create",
            Kind::Compress => "rename, compress",
            Kind::Delete => "delete, create",
            Kind::CopyTruncate => "copytruncate",
        }
    }
}
