//! A Python object as the bytes of a message.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// The bytes of an immutable object, or a copy, as other threads could change a mutable one meanwhile.
pub(crate) enum Message<'a> {
    Borrowed(&'a [u8]),
    Copied(Vec<u8>),
}

impl<'a> Message<'a> {
    /// Text is sent as UTF-8.
    #[inline]
    pub(crate) fn of(object: &'a Bound<'_, PyAny>) -> PyResult<Message<'a>> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Message::Borrowed(bytes.as_bytes()));
        }
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Message::Borrowed(text.to_str()?.as_bytes()));
        }
        Message::copied(object)
    }

    #[cold]
    fn copied(object: &Bound<'_, PyAny>) -> PyResult<Message<'a>> {
        let buffer = PyBuffer::<u8>::get(object).map_err(|_| {
            let kind = object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
            PyTypeError::new_err(format!(
                "a message is bytes, str, or an object with a buffer of bytes (bytearray, memoryview), not {kind}"
            ))
        })?;
        Ok(Message::Copied(buffer.to_vec(object.py())?))
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Message::Borrowed(bytes) => bytes,
            Message::Copied(bytes) => bytes,
        }
    }
}
