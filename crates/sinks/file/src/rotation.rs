//! When a file is set aside and a new one begun.

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Once it has this many bytes.
    pub bytes: Option<u64>,
    /// When the day changes (UTC).
    pub daily: bool,
    /// How many files that were set aside are kept; `None` keeps all.
    pub keep: Option<u32>,
}

impl Rotation {
    /// Whether the file is ever set aside.
    pub(super) fn is_on(&self) -> bool {
        self.bytes.is_some() || self.daily
    }
}
