//! The tasks by which a sink waits for a server, on the sink's own thread.

use std::time::Duration;

use bbq_spool::Progress;
use tokio::runtime::Runtime;
use tokio::task::{JoinError, JoinSet};

/// Waits until a task has ended, or the spool has more than what was `seen`, and no longer than `patience`. Returns how the task ended.
pub fn wait_for_task<T: 'static>(
    runtime: &Runtime,
    running: &mut JoinSet<T>,
    progress: &Progress,
    seen: u64,
    patience: Duration,
) -> Option<Result<T, JoinError>> {
    runtime.block_on(async {
        tokio::select! {
            biased;
            Some(finished) = running.join_next() => Some(finished),
            () = progress.changed(seen) => None,
            () = tokio::time::sleep(patience) => None,
        }
    })
}
