//! Whether a message is what every decoder takes: its fields down to the last level, and texts that are UTF-8.

use super::field::{FieldValue, Malformed, NESTING_MAX, fields_within};
use super::schema::{FieldRule, Kind, Schema};
use super::tags::put_nested;

/// Checks a message that is so many messages deep in its request. Returns whether it can stay as it is: all its texts are UTF-8, and
/// each field that is known has its wire type.
///
/// # Errors
/// A decoder refuses it for another reason.
pub(super) fn check(message: &[u8], schema: &Schema, depth: u32) -> Result<bool, Malformed> {
    let mut is_plain = true;
    for field in fields_within(message, depth) {
        let field = field?;
        let Some(rule) = schema.field(field.number) else { continue };
        is_plain &= match field.value {
            FieldValue::Bytes(value) if rule.kind.is_of(&field.value) => check_value(value, rule, depth)?,
            other => rule.kind.is_of(&other),
        };
    }
    Ok(is_plain)
}

/// The same of the value of one field.
pub(super) fn check_value(value: &[u8], rule: &FieldRule, depth: u32) -> Result<bool, Malformed> {
    match rule.kind {
        Kind::Text => Ok(std::str::from_utf8(value).is_ok()),
        Kind::Message(_) if depth == NESTING_MAX => Err(Malformed::TooDeep),
        Kind::Message(inner) => check(value, inner, depth + 1),
        _ => Ok(true),
    }
}

/// Appends a field whose value [`check_value`] has found not to be plain: with U+FFFD for what is not UTF-8, and without known fields of
/// another wire type. Decoders would refuse the request for it, and the message would be lost for one byte of it.
pub(super) fn put_repaired(value: &[u8], rule: &FieldRule, out: &mut Vec<u8>) {
    match rule.kind {
        Kind::Text => {
            let text = String::from_utf8_lossy(value);
            put_nested(rule.number, text.len(), out);
            out.extend_from_slice(text.as_bytes());
        }
        Kind::Message(schema) => {
            // It grows: a hundred levels would each reserve all of it.
            let mut inner = Vec::new();
            for field in fields_within(value, 0).map_while(Result::ok) {
                match (field.value, schema.field(field.number)) {
                    (value, Some(rule)) if !rule.kind.is_of(&value) => {}
                    (FieldValue::Bytes(value), Some(rule)) => put_repaired(value, rule, &mut inner),
                    _ => inner.extend_from_slice(field.bytes),
                }
            }
            put_nested(rule.number, inner.len(), out);
            out.append(&mut inner);
        }
        _ => {
            put_nested(rule.number, value.len(), out);
            out.extend_from_slice(value);
        }
    }
}
