//! Numbers and ids in the JSON mapping of OTLP.

use data_encoding::HEXLOWER_PERMISSIVE;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A number that may be written as text, because of languages without 64-bit numbers.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum NumberJson<N> {
    Number(N),
    Text(String),
}

impl<N: std::str::FromStr> NumberJson<N> {
    pub(super) fn value(self) -> Result<N, String> {
        match self {
            NumberJson::Number(number) => Ok(number),
            NumberJson::Text(text) => text.parse().map_err(|_| format!("{text:?} is not a number")),
        }
    }
}

/// Reads a number, or its text.
pub(super) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    NumberJson::deserialize(from)?.value().map_err(D::Error::custom)
}

/// Reads the bytes of an id from its hex digits.
pub(super) fn base16<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(D::Error::custom)
}
