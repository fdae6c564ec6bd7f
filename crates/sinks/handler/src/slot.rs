//! A handler on its way to its thread.

use std::sync::{Arc, Mutex, PoisonError};

use super::handling::Handler;

/// Where a handler is until its thread takes it.
#[derive(Clone)]
pub(super) struct Slot(Arc<Mutex<Option<Box<dyn Handler>>>>);

impl Slot {
    pub(super) fn new(handler: Box<dyn Handler>) -> Slot {
        Slot(Arc::new(Mutex::new(Some(handler))))
    }

    pub(super) fn take(&self) -> Option<Box<dyn Handler>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}
