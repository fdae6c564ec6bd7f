//! What the SPEC says about objects.

use std::fmt::Display;
use std::io;
use std::time::Duration;

use bbq_format::names::NameTemplate;
use bbq_sink::OpenError;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct ObjectSettings {
    /// Of the sink, for the log.
    pub(super) name: String,
    /// The SPEC without its options, for people.
    pub(super) shown: String,
    /// An object is cut when it has so many compressed bytes.
    pub(super) bytes: usize,
    /// An object is cut so long after its first message came.
    pub(super) age: Duration,
    /// The folder of an object.
    pub(super) folder: Option<NameTemplate>,
    /// Of zstd.
    pub(super) level: i32,
}

impl ObjectSettings {
    /// See [`Target::memory_bytes_min`](bbq_sink::Target::memory_bytes_min): an object that is written, and one that is filled.
    pub(super) fn memory_bytes_min(&self) -> u64 {
        2 * self.bytes as u64
    }

    /// Why the store cannot be opened now.
    pub(super) fn not_yet(&self, error: &dyn Display) -> OpenError {
        OpenError::NotYet(io::Error::other(format!("{}: {error}", self.shown)))
    }
}
