//! A thread that periodically checks whether other processes have joined a listener, whether certificates or tokens were replaced, whether
//! sockets are left of a larger number of workers, and how much room the spool's disk has. A check may take a tenth of a second, which is
//! too long for the control thread or a worker.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use bbq_spec::threads::{ThreadError, spawn};
use tokio::sync::watch;

use crate::parts::Parts;

/// Time between two checks.
const INTERVAL: Duration = Duration::from_secs(2);

/// The thread. It ends when this is dropped, after its current check.
pub struct CheckThread {
    begin: SyncSender<watch::Receiver<Arc<Parts>>>,
    thread: JoinHandle<()>,
}

impl CheckThread {
    /// Makes the thread, which does nothing yet.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn start() -> Result<CheckThread, ThreadError> {
        let (begin, begun) = sync_channel::<watch::Receiver<Arc<Parts>>>(1);
        let thread = spawn("control-checks".to_owned(), move || {
            let Ok(parts) = begun.recv() else { return };
            loop {
                let now = Arc::clone(&parts.borrow());
                now.check_foreign_members();
                now.check_changed_files();
                now.check_removed_sockets();
                now.check_disk_room();
                // Dropped before the wait: the parts of a start must end with the start.
                drop(now);
                if matches!(begun.recv_timeout(INTERVAL), Err(RecvTimeoutError::Disconnected)) {
                    return;
                }
            }
        })?;
        Ok(CheckThread { begin, thread })
    }

    /// Begins to check the listeners of `parts`.
    pub fn begin(&self, parts: &watch::Receiver<Arc<Parts>>) {
        // The channel has room for one, and only one is sent.
        let _begun = self.begin.try_send(parts.clone());
    }

    /// Ends the thread. It then no longer holds the listeners, whose files are removed with them.
    pub fn end(self) {
        drop(self.begin);
        // A panic was logged.
        let _ended = self.thread.join();
    }
}
