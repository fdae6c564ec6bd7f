//! Threads that the server starts by name.

use std::cell::Cell;
use std::io;
use std::thread::JoinHandle;

thread_local! {
    /// Whether the server started this thread.
    static IS_OF_SERVER: Cell<bool> = const { Cell::new(false) };
}

/// Why a thread could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start thread {name}")]
pub struct ThreadError {
    /// The name of the thread.
    pub name: String,
    /// What the system said.
    pub source: io::Error,
}

/// Starts a thread.
///
/// # Errors
/// The system has no thread left.
pub fn spawn<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, ThreadError> {
    let marked = move || {
        mark();
        work()
    };
    let thread = std::thread::Builder::new().name(name.clone()).spawn(marked);
    thread.map_err(|source| ThreadError { name, source })
}

/// Notes that the server has started this thread.
pub fn mark() {
    IS_OF_SERVER.set(true);
}

/// Whether the server has started this thread: in another program, the panics of all others are that program's.
#[must_use]
pub fn is_of_server() -> bool {
    IS_OF_SERVER.get()
}
