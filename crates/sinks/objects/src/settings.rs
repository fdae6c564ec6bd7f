//! What the SPEC says about objects.

use std::time::Duration;

use bbq_format::names::NameTemplate;

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
