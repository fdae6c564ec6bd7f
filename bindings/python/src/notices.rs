//! Calls a Python function with each notice, on a thread of the sender.
//!
//! A thread that waits for an interpreter that is ending is killed. So at exit `mute` first waits for a running call, and prevents all
//! later calls.

use std::sync::{Mutex, PoisonError};

use bbq_client::Notice;
use pyo3::prelude::*;

use crate::values;

pub(crate) struct Notices {
    handler: Py<PyAny>,
    /// Locked during a call.
    muted: Mutex<bool>,
}

impl Notices {
    pub(crate) fn new(handler: Py<PyAny>) -> Notices {
        Notices { handler, muted: Mutex::new(false) }
    }

    /// Calls the function. Python reports an exception of it as one that no code can catch.
    pub(crate) fn call(&self, notice: &Notice) {
        let muted = self.muted.lock().unwrap_or_else(PoisonError::into_inner);
        if *muted {
            return;
        }
        // `None` if there is no interpreter any more.
        let _called = Python::try_attach(|py| {
            let outcome = values::notice(py, notice).and_then(|notice| match notice {
                Some(notice) => self.handler.call1(py, (notice,)).map(drop),
                None => Ok(()),
            });
            if let Err(error) = outcome {
                error.write_unraisable(py, Some(self.handler.bind(py)));
            }
        });
    }

    /// Prevents later calls. The interpreter must be released, as a running call needs it.
    pub(crate) fn mute(&self) {
        *self.muted.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}
