//! What became of an object that was to be created.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Created {
    New,
    /// There is an object of that name. It was left alone.
    Exists,
}
