//! How the workers learn that they are to stop.

use tokio::sync::watch;

/// Resolves when the server is to stop.
#[derive(Debug, Clone)]
pub(super) struct Stop(pub(super) watch::Receiver<bool>);

impl Stop {
    pub(super) async fn requested(mut self) {
        // An error means that the sender is gone: stop as well.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}
