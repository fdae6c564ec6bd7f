//! Replaces in a record of OpenTelemetry: in each text of its body, attributes, resource and scope, however deep it is, also in keys.
//!
//! Only what is around a changed text is encoded again. Values that are bytes, and what the schema does not know, stay as they are.

use bbq_wire::otlp::schema::{Kind, REQUEST, Schema};
use bbq_wire::otlp::{FieldValue, Malformed, NESTING_MAX, fields};

use super::growth::Growth;
use super::texts::Texts;

/// Bytes of the longest length of a message.
const LENGTH_BYTES_MAX: usize = 5;
/// The wire type of texts and messages.
const BYTES: u32 = 2;

/// Appends the replaced record to `out`. Returns whether anything was replaced, and `None` if this is no record.
pub(super) fn apply(texts: &Texts, record: &[u8], growth: &mut Growth, out: &mut Vec<u8>) -> Option<bool> {
    match matches(texts, &REQUEST, record, 0) {
        Ok(true) => {}
        Ok(false) => return Some(false),
        Err(_) => return None,
    }
    let from = out.len();
    let mut writer = Writer { texts, growth, out };
    if writer.message(&REQUEST, record, 0).is_err() {
        out.truncate(from);
        return None;
    }
    Some(true)
}

/// Whether any text would be replaced. Most records have none, and are looked at without a copy.
fn matches(texts: &Texts, schema: &Schema, message: &[u8], depth: u32) -> Result<bool, Malformed> {
    if depth > NESTING_MAX {
        return Err(Malformed::TooDeep);
    }
    let mut is_match = false;
    for field in fields(message) {
        let field = field?;
        let FieldValue::Bytes(inner) = field.value else { continue };
        is_match |= match schema.field(field.number).map(|rule| rule.kind) {
            Some(Kind::Text) => texts.matches(inner),
            Some(Kind::Message(schema)) => matches(texts, schema, inner, depth + 1)?,
            _ => false,
        };
    }
    Ok(is_match)
}

struct Writer<'a> {
    texts: &'a Texts,
    growth: &'a mut Growth,
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    /// Appends a message with its texts replaced.
    fn message(&mut self, schema: &Schema, message: &[u8], depth: u32) -> Result<(), Malformed> {
        if depth > NESTING_MAX {
            return Err(Malformed::TooDeep);
        }
        for field in fields(message) {
            let field = field?;
            let FieldValue::Bytes(inner) = field.value else {
                self.out.extend_from_slice(field.bytes);
                continue;
            };
            match schema.field(field.number).map(|rule| rule.kind) {
                Some(Kind::Text) => {
                    let start = self.begin(field.number);
                    if self.texts.apply(inner, self.growth, self.out) {
                        self.keep_utf8(start + LENGTH_BYTES_MAX);
                        self.end(start);
                    } else {
                        self.take_back(field.number, start, field.bytes);
                    }
                }
                Some(Kind::Message(schema)) if matches(self.texts, schema, inner, depth + 1)? => {
                    let start = self.begin(field.number);
                    self.message(schema, inner, depth + 1)?;
                    self.end(start);
                }
                _ => self.out.extend_from_slice(field.bytes),
            }
        }
        Ok(())
    }

    /// Appends a tag, and room for a length. Returns where that is.
    fn begin(&mut self, number: u32) -> usize {
        put_varint(number << 3 | BYTES, self.out);
        let start = self.out.len();
        self.out.extend_from_slice(&[0; LENGTH_BYTES_MAX]);
        start
    }

    /// Writes the length of what was appended since `begin`, in as few bytes as it takes.
    fn end(&mut self, start: usize) {
        let content = start + LENGTH_BYTES_MAX;
        let mut length = Vec::with_capacity(LENGTH_BYTES_MAX);
        put_varint(u32::try_from(self.out.len() - content).unwrap_or(u32::MAX), &mut length);
        self.out.splice(start..content, length);
    }

    /// Appends a field as it came, in place of what was begun.
    fn take_back(&mut self, number: u32, start: usize, field: &[u8]) {
        let mut tag = Vec::with_capacity(LENGTH_BYTES_MAX);
        put_varint(number << 3 | BYTES, &mut tag);
        self.out.truncate(start - tag.len());
        self.out.extend_from_slice(field);
    }

    /// A pattern without Unicode may cut a character in two; a text in Protocol Buffers is UTF-8.
    fn keep_utf8(&mut self, from: usize) {
        if let Err(_cut) = std::str::from_utf8(&self.out[from..]) {
            let whole = String::from_utf8_lossy(&self.out[from..]).into_owned();
            self.out.truncate(from);
            self.out.extend_from_slice(whole.as_bytes());
        }
    }
}

fn put_varint(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
