//! The ticket that a source gets for records: it resolves when they are durable, and then the source answers its client.

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

    /// Waits until the records are on disk. Dropping the ticket does not affect the records.
    ///
    /// # Errors
    /// The records will never be on disk.
    pub(crate) async fn durable(self) -> Result<(), NotDurable> {
        self.0.await.map_err(|_| NotDurable)
    }
}
