//! Where a socket that several workers serve is armed.

/// Where a common socket is armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Baton {
    /// Its own worker serves it, or the acceptor thread does.
    Own,
    /// Nobody is there to serve it.
    #[default]
    Loose,
    /// In this worker's door.
    With(usize),
}
