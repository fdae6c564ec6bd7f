//! How many connections that were handed to a worker are open.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts an open connection that was handed to a worker. Keep it for as long as the connection: `handoff=fewest` gives the next
/// connection to the worker that has the fewest.
#[derive(Debug)]
pub struct OpenCount(Arc<AtomicUsize>);

impl OpenCount {
    /// Adds one to `open` for as long as the value that is returned lives.
    pub(crate) fn one_more(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for OpenCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
