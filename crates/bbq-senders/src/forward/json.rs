//! Values of MessagePack as JSON text (RFC 8259).
//!
//! ```text
//! text, bytes        a string, if they are UTF-8; otherwise {"base64":"..."}
//! an extension       {"ext":TYPE,"base64":"..."}
//! a key              a string; what is no text becomes one as JSON: 1 is "1". A map or an array is the base64 of its bytes
//! NaN, infinities    the strings "NaN", "Infinity" and "-Infinity", as JSON has no such numbers
//! ```
//!
//! Invariant: nothing of a value is lost. Its depth is bounded, and its text is at most a small multiple of its bytes.

use std::io::Write as _;

use data_encoding::BASE64;

use super::error::{LEVELS_MAX, NotForward};
use super::msgpack::{Head, Reader};

/// Appends the next value.
pub(super) fn put(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), NotForward> {
    put_at(reader, 0, out)
}

fn put_at(reader: &mut Reader<'_>, level: u32, out: &mut Vec<u8>) -> Result<(), NotForward> {
    match reader.head()? {
        Head::Nil => out.extend_from_slice(b"null"),
        Head::Bool(truth) => out.extend_from_slice(if truth { b"true" } else { b"false" }),
        Head::Unsigned(number) => write(out, format_args!("{number}")),
        Head::Negative(number) => write(out, format_args!("{number}")),
        Head::F32(number) if !number.is_finite() => put_string(special(number.into()), out),
        Head::F64(number) if !number.is_finite() => put_string(special(number), out),
        // The shortest text that reads back as the same number. Neither a finite number nor a Vec can fail.
        Head::F32(number) => drop(serde_json::to_writer(out, &number)),
        Head::F64(number) => drop(serde_json::to_writer(out, &number)),
        Head::Text(bytes) | Head::Binary(bytes) => put_text(reader.take(bytes)?, out),
        Head::Ext(kind, bytes) => put_ext(kind, reader.take(bytes)?, out),
        Head::Array(_) | Head::Map(_) if level == LEVELS_MAX => return Err(NotForward::TooDeep),
        Head::Array(values) => {
            out.push(b'[');
            for place in 0..values {
                if place > 0 {
                    out.push(b',');
                }
                put_at(reader, level + 1, out)?;
            }
            out.push(b']');
        }
        Head::Map(pairs) => {
            out.push(b'{');
            for place in 0..pairs {
                if place > 0 {
                    out.push(b',');
                }
                put_key(reader, out)?;
                out.push(b':');
                put_at(reader, level + 1, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

fn put_key(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), NotForward> {
    let mut ahead = *reader;
    match ahead.head()? {
        Head::Text(bytes) | Head::Binary(bytes) => {
            let key = ahead.take(bytes)?;
            if let Ok(text) = std::str::from_utf8(key) {
                *reader = ahead;
                put_string(text, out);
                return Ok(());
            }
        }
        // As JSON in a string in a string, its text would double with each level.
        Head::Array(_) | Head::Map(_) => {
            put_string(&BASE64.encode(reader.value()?), out);
            return Ok(());
        }
        _ => {}
    }
    let mut key = Vec::new();
    put_at(reader, LEVELS_MAX, &mut key)?;
    // JSON is UTF-8.
    put_string(std::str::from_utf8(&key).unwrap_or_default(), out);
    Ok(())
}

fn special(number: f64) -> &'static str {
    match number {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    }
}

fn put_text(bytes: &[u8], out: &mut Vec<u8>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => put_string(text, out),
        Err(_) => {
            out.extend_from_slice(b"{\"base64\":\"");
            put_base64(bytes, out);
            out.extend_from_slice(b"\"}");
        }
    }
}

fn put_ext(kind: i8, bytes: &[u8], out: &mut Vec<u8>) {
    write(out, format_args!("{{\"ext\":{kind},\"base64\":\""));
    put_base64(bytes, out);
    out.extend_from_slice(b"\"}");
}

fn put_base64(bytes: &[u8], out: &mut Vec<u8>) {
    let from = out.len();
    out.resize(from + BASE64.encode_len(bytes.len()), 0);
    BASE64.encode_mut(bytes, &mut out[from..]);
}

fn put_string(text: &str, out: &mut Vec<u8>) {
    // Neither a str nor a Vec can fail.
    let _infallible = serde_json::to_writer(out, text);
}

fn write(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // A Vec cannot fail.
    let _infallible = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(bytes: &[u8]) -> Result<String, NotForward> {
        let (mut reader, mut out) = (Reader::new(bytes), Vec::new());
        put(&mut reader, &mut out)?;
        assert!(reader.is_empty());
        let text = String::from_utf8(out).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
        Ok(text)
    }

    #[test]
    fn each_type_has_a_text() {
        for (bytes, text) in [
            (&[0xc0][..], "null"),
            (&[0xc3], "true"),
            (&[0x05], "5"),
            (&[0xcf, 255, 255, 255, 255, 255, 255, 255, 255], "18446744073709551615"),
            (&[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0], "-9223372036854775808"),
            (&[0xca, 0x3d, 0xcc, 0xcc, 0xcd], "0.1"),
            (&[0xcb, 0x3f, 0xb9, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a], "0.1"),
            (&[0xca, 0x7f, 0x80, 0, 0], "\"Infinity\""),
            (&[0xcb, 0xff, 0xf0, 0, 0, 0, 0, 0, 0], "\"-Infinity\""),
            (&[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0], "\"NaN\""),
            (&[0xa3, b'"', b'\n', 0x01], r#""\"\n\u0001""#),
            (&[0xc4, 1, b'x'], "\"x\""),
            (&[0xa2, 0xff, 0xfe], r#"{"base64":"//4="}"#),
            (&[0xd4, 0xfb, 0x01], r#"{"ext":-5,"base64":"AQ=="}"#),
            (&[0x90], "[]"),
            (&[0x80], "{}"),
            (&[0x92, 1, 0x91, 0xc0], "[1,[null]]"),
            (&[0x82, 0xa1, b'a', 1, 0x02, 0x81, 0xc0, 0xc2], r#"{"a":1,"2":{"null":false}}"#),
            (&[0x81, 0xa1, 0xff, 1], r#"{"{\"base64\":\"/w==\"}":1}"#),
            (&[0x81, 0x91, 1, 2], r#"{"kQE=":2}"#),
        ] {
            assert_eq!(json(bytes).unwrap(), text, "{bytes:02x?}");
        }
    }

    #[test]
    fn levels_are_bounded() {
        let nested = |levels: usize, open: &[u8]| [open.repeat(levels), vec![0xc0]].concat();
        for open in [&[0x91][..], &[0x81, 0xa1, b'k']] {
            assert!(json(&nested(LEVELS_MAX as usize, open)).is_ok());
            assert_eq!(json(&nested(LEVELS_MAX as usize + 1, open)), Err(NotForward::TooDeep));
            assert_eq!(json(&nested(1_000_000, open)), Err(NotForward::TooDeep));
        }
        // In keys: a map whose key is a map, whose text stays small.
        let keys = [&[0x81].repeat(1000)[..], &[0xc0].repeat(1001)].concat();
        assert!(json(&keys).unwrap().len() < 2 * keys.len());
    }
}
