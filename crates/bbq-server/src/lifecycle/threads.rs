//! Threads that the server starts by name.

use std::thread::JoinHandle;

use crate::error::StartError;
use crate::lifecycle::panics;

/// Starts a thread.
///
/// # Errors
/// The system has no thread left.
pub(crate) fn spawn<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StartError> {
    let marked = move || {
        panics::mark_thread();
        work()
    };
    let thread = std::thread::Builder::new().name(name.clone()).spawn(marked);
    thread.map_err(|source| StartError::Thread { name, source })
}
