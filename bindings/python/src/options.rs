//! What the keywords of Python's `Sender` mean. Ranges are bbq-client's to check.

use std::time::Duration;

use bbq_client::{AckLevel, Compress, Delivery, OnFull, ServerAddress};
use pyo3::prelude::*;

use crate::errors;

/// One server, or some.
#[derive(FromPyObject)]
pub(crate) enum Servers {
    One(String),
    Some(Vec<String>),
}

impl Servers {
    pub(crate) fn addresses(self) -> PyResult<Vec<ServerAddress>> {
        let texts = match self {
            Servers::One(text) => vec![text],
            Servers::Some(texts) => texts,
        };
        texts.iter().map(|text| text.parse().map_err(|error| errors::option(format!("{error}")))).collect()
    }
}

pub(crate) fn ack(text: &str) -> PyResult<AckLevel> {
    match text {
        "durable" => Ok(AckLevel::Durable),
        "received" => Ok(AckLevel::Received),
        "none" => Ok(AckLevel::None),
        _ => Err(unknown("ack", text, "\"durable\", \"received\" or \"none\"")),
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

/// On, off, or a word.
#[derive(FromPyObject)]
pub(crate) enum Compression {
    Switch(bool),
    Word(String),
}

pub(crate) fn compress(compression: Compression) -> PyResult<Compress> {
    match compression {
        Compression::Switch(false) => Ok(Compress::Off),
        Compression::Switch(true) => Ok(Compress::On),
        Compression::Word(word) if word == "auto" => Ok(Compress::Auto),
        Compression::Word(word) => Err(unknown("compress", &word, "False, True or \"auto\"")),
    }
}

/// Seconds as Python counts them; `inf` is as long as it takes.
pub(crate) fn seconds(option: &str, value: f64) -> PyResult<Duration> {
    if value.is_nan() || value < 0.0 {
        return Err(unknown(option, &value.to_string(), "seconds, 0 or more"));
    }
    Ok(Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX))
}

fn unknown(option: &str, value: &str, range: &str) -> PyErr {
    errors::option(format!("{option} is {value}; use {range}"))
}
