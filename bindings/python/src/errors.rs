//! Errors as the exceptions of `bbq.errors`.

use bbq_client::{SendError, StartError};
use pyo3::prelude::*;

/// The classes of `bbq.errors`. Users see the module name `bbq` in tracebacks.
mod classes {
    pyo3::import_exception!(bbq, Closed);
    pyo3::import_exception!(bbq, Error);
    pyo3::import_exception!(bbq, Forked);
    pyo3::import_exception!(bbq, Full);
    pyo3::import_exception!(bbq, MessageTooLarge);
    pyo3::import_exception!(bbq, OptionError);
    pyo3::import_exception!(bbq, ProtocolError);
    pyo3::import_exception!(bbq, Refused);
    pyo3::import_exception!(bbq, SpoolError);
    pyo3::import_exception!(bbq, StartError);
    pyo3::import_exception!(bbq, Timeout);
}

pub(crate) fn sending(error: &SendError) -> PyErr {
    let text = error.to_string();
    match error {
        SendError::Full { .. } | SendError::SpoolFull { .. } => classes::Full::new_err(text),
        SendError::MessageTooLarge { .. } => classes::MessageTooLarge::new_err(text),
        SendError::Timeout { .. } => classes::Timeout::new_err(text),
        SendError::Refused { .. } => classes::Refused::new_err(text),
        SendError::Spool { .. } => classes::SpoolError::new_err(text),
        SendError::Forked => forked(),
        SendError::Closed => classes::Closed::new_err(text),
        // Unknown errors are the server's fault, too.
        _ => classes::ProtocolError::new_err(text),
    }
}

pub(crate) fn starting(error: &StartError) -> PyErr {
    let text = error.to_string();
    match error {
        StartError::NoServers
        | StartError::NamedTwice { .. }
        | StartError::Option { .. }
        | StartError::Tls { .. }
        | StartError::Reconnect(_) => option(text),
        StartError::SpoolInUse { .. } | StartError::Spool { .. } => classes::SpoolError::new_err(text),
        _ => classes::StartError::new_err(text),
    }
}

pub(crate) fn option(text: String) -> PyErr {
    classes::OptionError::new_err(text)
}

pub(crate) fn forked() -> PyErr {
    classes::Forked::new_err(
        "the sender belongs to the parent process; make one in each process after the fork, or call start_again()",
    )
}

pub(crate) fn forked_with_spool() -> PyErr {
    classes::Forked::new_err(
        "the spool belongs to the parent process; make a sender with a spool of its own in each process",
    )
}

pub(crate) fn closed() -> PyErr {
    sending(&SendError::Closed)
}

/// Whether an exception is a `bbq.Error`, and not one of the application or Ctrl-C.
pub(crate) fn is_bbq_error(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<classes::Error>(py)
}
