//! What a source gets for records that a worker has taken: the answer to its request waits for it.

use tokio::sync::oneshot;

/// Records that are on their way to the disk.
#[derive(Debug)]
pub(crate) struct Ticket(oneshot::Receiver<()>);

/// The records will not be durable: the lane failed, or the server stops and has no room on disk. Their sender still has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the records could not be written to disk")]
pub(crate) struct NotDurable;

impl Ticket {
    pub(super) fn new(durable: oneshot::Receiver<()>) -> Ticket {
        Ticket(durable)
    }

    /// Waits until the records are on disk. Dropping the ticket instead changes nothing for them.
    ///
    /// # Errors
    /// They never will be.
    pub(crate) async fn durable(self) -> Result<(), NotDurable> {
        self.0.await.map_err(|_| NotDurable)
    }
}
