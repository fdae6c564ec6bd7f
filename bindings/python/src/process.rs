//! Which process this is. Counting forks is cheaper than asking the system.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Forks between the process that loaded this module and the current one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Identifies the process that an object belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u64);

impl Generation {
    pub(crate) fn current() -> Generation {
        Generation(FORKS.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn is_current(self) -> bool {
        self == Generation::current()
    }
}

#[pyfunction]
fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_forks(py: Python<'_>) -> PyResult<()> {
    let arguments = PyDict::new(py);
    arguments.set_item("after_in_child", wrap_pyfunction!(forked, py)?)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&arguments))?;
    Ok(())
}
