//! Where a socket is armed.

/// The worker in whose epoll set a socket is armed, if it is in any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ArmedIn {
    /// In no epoll set: its own worker waits for it directly, or the acceptor thread does.
    Exclusive,
    /// Nowhere: no worker is there to serve it.
    #[default]
    Nowhere,
    /// In the epoll set of this worker.
    Worker(usize),
}
