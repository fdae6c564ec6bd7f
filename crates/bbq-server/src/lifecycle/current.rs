//! The parts of a server that runs, for its program.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bbq_observe::Parts;

/// See the module. It keeps nothing open: the parts hold sockets and files.
#[derive(Clone, Default)]
pub(crate) struct CurrentParts(Arc<Mutex<Weak<Parts>>>);

impl CurrentParts {
    pub(crate) fn set(&self, parts: &Arc<Parts>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(parts);
    }

    /// `None` when the server has ended.
    pub(crate) fn parts(&self) -> Option<Arc<Parts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }
}
