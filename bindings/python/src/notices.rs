//! The application's ear for notices: a Python function that a thread of the sender calls.
//!
//! A thread that waits for the interpreter while it ends is killed in the middle of what it does. So at exit the gate is closed
//! first: `mute` waits for a call that is on its way, and lets no other begin.

use std::sync::{Mutex, PoisonError};

use bbq_client::Notice;
use pyo3::prelude::*;

use crate::values;

pub(crate) struct Notices {
    handler: Py<PyAny>,
    /// Whether the gate is closed; locked during a call.
    muted: Mutex<bool>,
}

impl Notices {
    pub(crate) fn new(handler: Py<PyAny>) -> Notices {
        Notices { handler, muted: Mutex::new(false) }
    }

    /// Tells the application. An exception of its function goes where Python reports those that nobody can catch.
    pub(crate) fn tell(&self, notice: &Notice) {
        let muted = self.muted.lock().unwrap_or_else(PoisonError::into_inner);
        if *muted {
            return;
        }
        // `None` when there is no interpreter any more, and so nobody to tell.
        let _told = Python::try_attach(|py| {
            let told = values::notice(py, notice).and_then(|notice| match notice {
                Some(notice) => self.handler.call1(py, (notice,)).map(drop),
                None => Ok(()),
            });
            if let Err(error) = told {
                error.write_unraisable(py, Some(self.handler.bind(py)));
            }
        });
    }

    /// Ends the calls. Not to be called with the interpreter held: a call on its way needs it.
    pub(crate) fn mute(&self) {
        *self.muted.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}
