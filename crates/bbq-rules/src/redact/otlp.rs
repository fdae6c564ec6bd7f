//! Replaces in a record of OpenTelemetry: in each text of its body, attributes, resource and scope, however deep it is, also in keys.
//!
//! Only what is around a changed text is encoded again. Values that are bytes, and what the schema does not know, stay as they are. Each text
//! is searched once, and a record without a match is not copied.

use bbq_wire::otlp::schema::{Kind, REQUEST, Schema};
use bbq_wire::otlp::{FieldValue, Malformed, NESTING_MAX, fields};

use super::growth::Growth;
use super::texts::Texts;

/// The wire type of texts and messages.
const BYTES: u32 = 2;

/// Appends the replaced record to `out`. Returns whether anything was replaced, and `None` if this is no record.
pub(super) fn apply(texts: &Texts, record: &[u8], growth: &mut Growth, out: &mut Vec<u8>) -> Option<bool> {
    let replaced = message(texts, growth, &REQUEST, record, 0).ok()?;
    out.extend_from_slice(replaced.as_deref().unwrap_or_default());
    Some(replaced.is_some())
}

/// The message with its texts replaced; `None` if it stays as it is.
fn message(
    texts: &Texts,
    growth: &mut Growth,
    schema: &Schema,
    message: &[u8],
    depth: u32,
) -> Result<Option<Vec<u8>>, Malformed> {
    if depth > NESTING_MAX {
        return Err(Malformed::TooDeep);
    }
    let mut replaced = Vec::new();
    // Where the field ends, and up to where the message is in `replaced`.
    let (mut end, mut copied) = (0, 0);
    for field in fields(message) {
        let field = field?;
        let start = end;
        end += field.bytes.len();
        let FieldValue::Bytes(inner) = field.value else { continue };
        let content = match schema.field(field.number).map(|rule| rule.kind) {
            Some(Kind::Text) => text(texts, growth, inner),
            Some(Kind::Message(schema)) => self::message(texts, growth, schema, inner, depth + 1)?,
            _ => None,
        };
        if let Some(content) = content {
            replaced.extend_from_slice(&message[copied..start]);
            put_varint(field.number << 3 | BYTES, &mut replaced);
            put_varint(u32::try_from(content.len()).unwrap_or(u32::MAX), &mut replaced);
            replaced.extend_from_slice(&content);
            copied = end;
        }
    }
    if copied == 0 {
        return Ok(None);
    }
    replaced.extend_from_slice(&message[copied..]);
    Ok(Some(replaced))
}

/// A text with its matches replaced; `None` if it has none.
fn text(texts: &Texts, growth: &mut Growth, text: &[u8]) -> Option<Vec<u8>> {
    let mut replaced = Vec::new();
    if !texts.apply(text, growth, &mut replaced) {
        return None;
    }
    // A pattern without Unicode may cut a character in two; a text in Protocol Buffers is UTF-8.
    let whole = String::from_utf8(replaced);
    Some(whole.map_or_else(
        |cut| String::from_utf8_lossy(cut.as_bytes()).into_owned().into_bytes(),
        String::into_bytes,
    ))
}

fn put_varint(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
