//! Numbers, texts and bytes in the JSON mapping of Protocol Buffers (protobuf.dev/programming-guides/json), and how they are encoded.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use bbq_wire::otlp::schema::{FieldRule, Kind};
use data_encoding::{Encoding, HEXLOWER_PERMISSIVE};
use prost::encoding::{WireType, encode_key, encode_varint};
use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// The values of `SeverityNumber`, in order.
const SEVERITIES: [&str; 7] = ["UNSPECIFIED", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];

/// As decoders of ProtoJSON read it: bits that are not used may be anything.
static BASE64: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = data_encoding::BASE64_NOPAD.specification();
    specification.check_trailing_bits = false;
    specification.encoding().unwrap_or(data_encoding::BASE64_NOPAD)
});

/// Reads a value that is no message, and appends the field. With `is_kept`, a field with its default value is there, too.
pub(super) fn put_scalar<'de, D: Deserializer<'de>>(
    from: D,
    rule: &FieldRule,
    is_kept: bool,
    out: &mut Vec<u8>,
) -> Result<(), D::Error> {
    let number = rule.number;
    let put_bytes = |bytes: &[u8], out: &mut Vec<u8>| {
        if is_kept || !bytes.is_empty() {
            encode_key(number, WireType::LengthDelimited, out);
            encode_varint(bytes.len() as u64, out);
            out.extend_from_slice(bytes);
        }
    };
    let put_varint = |value: u64, out: &mut Vec<u8>| {
        if is_kept || value != 0 {
            encode_key(number, WireType::Varint, out);
            encode_varint(value, out);
        }
    };
    match rule.kind {
        Kind::Text => put_bytes(from.deserialize_str(TextVisitor)?.as_bytes(), out),
        Kind::Bytes => put_bytes(&base64(&from.deserialize_str(TextVisitor)?)?, out),
        Kind::Id => {
            let text = from.deserialize_str(TextVisitor)?;
            let id = HEXLOWER_PERMISSIVE.decode(text.as_bytes());
            put_bytes(
                &id.map_err(|_| D::Error::invalid_value(Unexpected::Str(&text), &"an id in hex digits"))?,
                out,
            );
        }
        Kind::Bool => put_varint(from.deserialize_any(BoolVisitor)?.into(), out),
        Kind::Severity => {
            let severity = from.deserialize_any(Integer {
                min: i32::MIN.into(),
                max: i32::MAX.into(),
                is_severity: true,
            })?;
            put_varint(as_varint(severity), out);
        }
        Kind::Int32 => put_varint(as_varint(from.deserialize_any(Integer::of(i32::MIN, i32::MAX))?), out),
        Kind::Int64 => put_varint(as_varint(from.deserialize_any(Integer::of(i64::MIN, i64::MAX))?), out),
        Kind::Uint32 => put_varint(as_varint(from.deserialize_any(Integer::of(0, u32::MAX))?), out),
        Kind::Fixed32 => {
            let value = from.deserialize_any(Integer::of(0, u32::MAX))?;
            if is_kept || value != 0 {
                encode_key(number, WireType::ThirtyTwoBit, out);
                out.extend_from_slice(&(value as u32).to_le_bytes());
            }
        }
        Kind::Fixed64 => {
            let value = from.deserialize_any(Integer::of(0, u64::MAX))?;
            if is_kept || value != 0 {
                encode_key(number, WireType::SixtyFourBit, out);
                out.extend_from_slice(&(value as u64).to_le_bytes());
            }
        }
        Kind::Double => {
            let value = from.deserialize_any(DoubleVisitor)?;
            encode_key(number, WireType::SixtyFourBit, out);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Kind::Message(_) => return Err(D::Error::custom("a message is no scalar")),
    }
    Ok(())
}

/// Negative numbers have 64 bits.
fn as_varint(value: i128) -> u64 {
    value as u64
}

/// Of the usual alphabet or that of URLs, with padding or without.
fn base64<E: Error>(text: &str) -> Result<Vec<u8>, E> {
    let usual: String = text
        .trim_end_matches('=')
        .chars()
        .map(|letter| match letter {
            '-' => '+',
            '_' => '/',
            other => other,
        })
        .collect();
    BASE64
        .decode(usual.as_bytes())
        .map_err(|error| E::custom(format_args!("bytesValue is not base64: {error}")))
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

struct BoolVisitor;

impl Visitor<'_> for BoolVisitor {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true or false")
    }

    fn visit_bool<E>(self, value: bool) -> Result<bool, E> {
        Ok(value)
    }
}

/// A number without a fraction: as a number, also 1e3, or as a text, as JavaScript has no integers of 64 bits.
struct Integer {
    min: i128,
    max: i128,
    is_severity: bool,
}

impl Integer {
    fn of(min: impl Into<i128>, max: impl Into<i128>) -> Integer {
        Integer { min: min.into(), max: max.into(), is_severity: false }
    }

    fn checked<E: Error>(&self, value: i128, shown: Unexpected<'_>) -> Result<i128, E> {
        if (self.min..=self.max).contains(&value) { Ok(value) } else { Err(E::invalid_value(shown, self)) }
    }
}

impl Visitor<'_> for Integer {
    type Value = i128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an integer from {} to {}, as a number or a text", self.min, self.max)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<i128, E> {
        self.checked(value.into(), Unexpected::Unsigned(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<i128, E> {
        self.checked(value.into(), Unexpected::Signed(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<i128, E> {
        // The conversion saturates, which is beyond every range here.
        let integer = if value.fract() == 0.0 { value as i128 } else { i128::MAX };
        self.checked(integer, Unexpected::Float(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<i128, E> {
        if self.is_severity
            && let Some(number) = severity(text)
        {
            return Ok(number);
        }
        match text.parse() {
            Ok(value) => self.checked(value, Unexpected::Str(text)),
            // A name that a later version has.
            Err(_) if self.is_severity => Ok(0),
            Err(_) => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

/// The number of SEVERITY_NUMBER_INFO2 and the like.
fn severity(name: &str) -> Option<i128> {
    let name = name.strip_prefix("SEVERITY_NUMBER_")?;
    let (word, place) = match name.as_bytes() {
        [.., place @ b'2'..=b'4'] => (&name[..name.len() - 1], i128::from(place - b'1')),
        _ => (name, 0),
    };
    let index = SEVERITIES.iter().position(|known| *known == word)?;
    match index.checked_sub(1) {
        Some(index) => Some(index as i128 * 4 + 1 + place),
        None => (place == 0).then_some(0),
    }
}

struct DoubleVisitor;

impl Visitor<'_> for DoubleVisitor {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, its text, \"NaN\", \"Infinity\" or \"-Infinity\"")
    }

    fn visit_u64<E>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_i64<E>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_f64<E>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        match text {
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            _ => {
                let number = text.parse().ok().filter(|number: &f64| number.is_finite());
                number.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_have_names() {
        for (name, number) in [
            ("SEVERITY_NUMBER_UNSPECIFIED", Some(0)),
            ("SEVERITY_NUMBER_TRACE", Some(1)),
            ("SEVERITY_NUMBER_INFO", Some(9)),
            ("SEVERITY_NUMBER_INFO4", Some(12)),
            ("SEVERITY_NUMBER_FATAL4", Some(24)),
            ("SEVERITY_NUMBER_FATAL5", None),
            ("SEVERITY_NUMBER_UNSPECIFIED2", None),
            ("INFO", None),
        ] {
            assert_eq!(severity(name), number, "{name}");
        }
    }
}
