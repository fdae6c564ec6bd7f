//! Converts the arguments of Python's `Sender`. bbq-client checks their ranges.

use std::path::PathBuf;
use std::time::Duration;

use bbq_client::{AckLevel, Compress, Delivery, OnFull, SenderBuilder, ServerAddress};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};

use crate::errors;

/// One address, or several.
pub(crate) fn servers(value: &Bound<'_, PyAny>) -> PyResult<Vec<ServerAddress>> {
    let wanted = "an address such as \"bbq://HOST:PORT\" for servers, or several";
    let address = |value: &Bound<'_, PyAny>| {
        let text: String = value.extract().map_err(|_| wrong_type(wanted, value))?;
        text.parse().map_err(|error| errors::option(format!("{error}")))
    };
    if value.is_instance_of::<PyString>() {
        return Ok(vec![address(value)?]);
    }
    value.try_iter().map_err(|_| wrong_type(wanted, value))?.map(|one| address(&one?)).collect()
}

pub(crate) fn queue_bytes_max(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    whole("queue_bytes_max", value, "65536 or more")
}

pub(crate) fn batch_bytes(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    whole("batch_bytes", value, "1024 to 262144")
}

pub(crate) fn spool_bytes_max(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if value.is_none() { Ok(None) } else { whole("spool_bytes_max", value, "67108864 or more").map(Some) }
}

/// Converts an integer. The error for a negative or too large one names `range`, as an error of bbq-client does.
pub(crate) fn whole<'py, T>(option: &str, value: &Bound<'py, PyAny>, range: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    value.extract().map_err(|_| {
        if value.is_instance_of::<PyInt>() {
            unknown(option, &value.to_string(), range)
        } else {
            wrong_type(&format!("an int for {option}, {range}"), value)
        }
    })
}

/// `wanted` says what is valid.
pub(crate) fn wrong_type(wanted: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let kind = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("use {wanted}, not {kind}"))
}

pub(crate) fn ack(text: &str) -> PyResult<AckLevel> {
    match text {
        "durable" => Ok(AckLevel::Durable),
        "received" => Ok(AckLevel::Received),
        "none" => Ok(AckLevel::None),
        "replicated" => Ok(AckLevel::Replicated),
        _ => Err(unknown("ack", text, "\"durable\", \"received\", \"none\" or \"replicated\"")),
    }
}

pub(crate) fn delivery(text: &str) -> PyResult<Delivery> {
    match text {
        "any" => Ok(Delivery::Any),
        "all" => Ok(Delivery::All),
        _ => Err(unknown("delivery", text, "\"any\" or \"all\"")),
    }
}

pub(crate) fn on_full(text: &str, block_timeout: Option<f64>) -> PyResult<OnFull> {
    match text {
        "block" => Ok(OnFull::Block(block_timeout.map(|most| seconds("block_timeout", most)).transpose()?)),
        "drop-newest" => Ok(OnFull::DropNewest),
        "drop-oldest" => Ok(OnFull::DropOldest),
        _ => Err(unknown("on_full", text, "\"block\", \"drop-newest\" or \"drop-oldest\"")),
    }
}

pub(crate) fn compress(value: &Bound<'_, PyAny>) -> PyResult<Compress> {
    const WANTED: &str = "False, True or \"auto\"";
    if let Ok(on) = value.cast::<PyBool>() {
        return Ok(if on.is_true() { Compress::On } else { Compress::Off });
    }
    let word: String = value.extract().map_err(|_| wrong_type(&format!("{WANTED} for compress"), value))?;
    match word.as_str() {
        "auto" => Ok(Compress::Auto),
        word => Err(unknown("compress", word, WANTED)),
    }
}

pub(crate) fn with_tls(
    mut builder: SenderBuilder,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    server_name: Option<String>,
) -> SenderBuilder {
    if let Some(file) = ca {
        builder = builder.tls_ca(file);
    }
    if let Some(file) = cert {
        builder = builder.tls_cert(file);
    }
    if let Some(file) = key {
        builder = builder.tls_key(file);
    }
    if let Some(name) = server_name {
        builder = builder.tls_server_name(name);
    }
    builder
}

/// Converts seconds; `inf` is without end.
pub(crate) fn seconds(option: &str, value: f64) -> PyResult<Duration> {
    if value.is_nan() || value < 0.0 {
        return Err(unknown(option, &value.to_string(), "seconds, 0 or more"));
    }
    Ok(Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX))
}

fn unknown(option: &str, value: &str, range: &str) -> PyErr {
    errors::option(format!("{option} is {value}; use {range}"))
}
