//! How many connections that were handed to a worker are open.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An open connection that was handed to a worker: keep it for as long as the connection, so that the next ones go to those
/// who have the fewest.
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
