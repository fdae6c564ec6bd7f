//! `bbq._native`: the sender of bbq-client as a Python class. Exceptions, values, the logging handler and the exit of the process are in
//! `python/bbq`.
//!
//! Invariant: a call that can wait releases the interpreter.
//! Invariant: a forked child touches nothing of the parent's sender, as its threads, which may hold its locks, are in the parent.
//! Invariant: no thread of a sender enters an interpreter that is ending (`notices`).

mod errors;
mod message;
mod notices;
mod options;
mod process;
mod process_sender;
mod queue_credit;
mod sender;
mod values;
mod waiting;

use pyo3::prelude::*;

#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use super::process_sender::finish_all;
    #[pymodule_export]
    use super::sender::Sender;
    use pyo3::prelude::*;

    /// Counts forks from now on, so that a child knows the senders of its parent.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::process::count_forks(module.py())
    }
}
