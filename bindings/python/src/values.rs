//! Conversions from and to the dataclasses of `bbq.values`.

use std::time::Duration;

use bbq_client as client;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

use crate::options::{seconds, whole, wrong_type};

pub(crate) fn counters<'py>(py: Python<'py>, counters: &client::Counters) -> PyResult<Bound<'py, PyAny>> {
    static COUNTERS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static DROPPED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let dropped = &counters.dropped;
    let dropped = DROPPED.import(py, "bbq", "Dropped")?.call1((
        dropped.full,
        dropped.too_large,
        dropped.spool,
        dropped.closed,
        dropped.oldest,
        dropped.abandoned,
    ))?;
    COUNTERS.import(py, "bbq", "Counters")?.call1((
        counters.accepted,
        counters.recovered,
        counters.sent,
        counters.acknowledged,
        counters.queued,
        counters.queued_bytes,
        counters.reconnects,
        dropped,
        counters.protocol_errors,
    ))
}

pub(crate) fn progress<'py>(
    py: Python<'py>,
    progress: &client::ServerProgress,
) -> PyResult<Bound<'py, PyAny>> {
    static PROGRESS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    PROGRESS.import(py, "bbq", "ServerProgress")?.call1((
        &progress.server,
        progress.connected,
        progress.acknowledged_sequence,
        progress.reconnects,
        progress.reconnect.attempts,
        progress.reconnect.wait.as_secs_f64(),
    ))
}

pub(crate) fn notice<'py>(py: Python<'py>, notice: &client::Notice) -> PyResult<Option<Bound<'py, PyAny>>> {
    static NOTICE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let lost;
    let (kind, server, why) = match notice {
        client::Notice::Connected { server } => ("connected", server, ""),
        client::Notice::Unreachable { server, why } => ("unreachable", server, why.as_str()),
        client::Notice::Ended { server, why } => ("ended", server, why.as_str()),
        client::Notice::NewStream { server, why } => ("new_stream", server, why.as_str()),
        client::Notice::Lost { server, records, why } => {
            lost = format!("{records} messages: {why}");
            ("lost", server, lost.as_str())
        }
        // A kind that this version does not know.
        _ => return Ok(None),
    };
    NOTICE.import(py, "bbq", "Notice")?.call1((kind, server, why)).map(Some)
}

fn reconnect_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static RECONNECT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    RECONNECT.import(py, "bbq", "Reconnect")
}

pub(crate) fn reconnect<'py>(py: Python<'py>, set: &client::Reconnect) -> PyResult<Bound<'py, PyAny>> {
    let (wait, wait_max) = (set.wait.as_secs_f64(), set.wait_max.as_secs_f64());
    reconnect_class(py)?.call1((set.attempts, set.attempts_min, wait, wait_max))
}

/// Converts a `bbq.Reconnect`, or a dict of its arguments, as from a configuration file.
pub(crate) fn reconnect_of(value: &Bound<'_, PyAny>) -> PyResult<client::Reconnect> {
    let made;
    let value = match value.cast::<PyDict>() {
        Ok(arguments) => {
            made = reconnect_class(value.py())?.call((), Some(arguments))?;
            &made
        }
        Err(_) => value,
    };
    let field = |name: &str| {
        value
            .getattr(name)
            .map_err(|_| wrong_type("a bbq.Reconnect for reconnect, or a dict of its arguments", value))
    };
    let wait = |name: &str| -> PyResult<Duration> {
        let given = field(name)?;
        let number = given.extract().map_err(|_| wrong_type(&format!("seconds for {name}"), &given))?;
        seconds(name, number)
    };
    let attempts = |name: &str| whole(name, &field(name)?, "1 to 4294967295");
    Ok(client::Reconnect {
        attempts: attempts("attempts")?,
        attempts_min: attempts("attempts_min")?,
        wait: wait("wait")?,
        wait_max: wait("wait_max")?,
    })
}
