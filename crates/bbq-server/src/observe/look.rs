//! A thread that looks from time to time whether other processes have joined a listener: a look may take a tenth of a
//! second, which is too long for control, and would be seen by whoever waits for a worker.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;

use crate::error::StartError;
use crate::lifecycle::parts::Parts;
use crate::lifecycle::threads::spawn;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(2);

/// The thread; it ends when this is dropped, after the look that it is in.
pub(crate) struct Look {
    begin: SyncSender<watch::Receiver<Arc<Parts>>>,
    thread: JoinHandle<()>,
}

impl Look {
    /// Makes the thread, which does nothing yet.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn start() -> Result<Look, StartError> {
        let (begin, begun) = sync_channel::<watch::Receiver<Arc<Parts>>>(1);
        let thread = spawn("control-look".to_owned(), move || {
            let Ok(parts) = begun.recv() else { return };
            loop {
                let now = Arc::clone(&parts.borrow());
                now.look_for_foreign_members();
                // Held no longer than a look takes: the parts of a start end with it.
                drop(now);
                if matches!(begun.recv_timeout(INTERVAL), Err(RecvTimeoutError::Disconnected)) {
                    return;
                }
            }
        })?;
        Ok(Look { begin, thread })
    }

    /// Looks at what `parts` holds at the time.
    pub(crate) fn begin(&self, parts: &watch::Receiver<Arc<Parts>>) {
        // It takes one, and only one comes.
        let _begun = self.begin.try_send(parts.clone());
    }

    /// Ends it, and with it its hold on the listeners, whose files go with them.
    pub(crate) fn end(self) {
        drop(self.begin);
        // A panic was logged.
        let _ended = self.thread.join();
    }
}
