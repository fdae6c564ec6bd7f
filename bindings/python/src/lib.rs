//! `bbq._native`: bbq-client's sender as a Python class. What Python says better is in `python/bbq`: exceptions, values, the logging
//! handler, and what happens at exit. Not here: anything of sending itself.
//!
//! Invariant: whatever can wait is done with the interpreter released.
//! Invariant: in a forked child nothing of the parent's sender is touched: its threads, and who holds its locks, are in the parent.
//! Invariant: no thread of the sender enters the interpreter once it ends (`notices`).

mod errors;
mod message;
mod notices;
mod options;
mod process;
mod process_sender;
mod room;
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

    /// Marks senders of the parent in every child that is forked from now on.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::process::watch_forks(module.py())
    }
}
