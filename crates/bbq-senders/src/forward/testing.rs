//! An encoder of MessagePack for tests, which writes each value in its shortest form.

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Nil,
    Bool(bool),
    Int(i64),
    F64(f64),
    Text(String),
    Binary(Vec<u8>),
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Ext(i8, Vec<u8>),
}

impl Value {
    pub(super) fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    /// A time of the Forward Protocol.
    pub(super) fn time(seconds: u32, nanoseconds: u32) -> Value {
        Value::Ext(0, [seconds.to_be_bytes(), nanoseconds.to_be_bytes()].concat())
    }
}

/// A map with texts as keys.
pub(super) fn map<'a>(pairs: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value::Map(pairs.into_iter().map(|(key, value)| (Value::text(key), value)).collect())
}

/// The bytes of a value.
pub(super) fn packed(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put(value, &mut out);
    out
}

fn put(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Nil => out.push(0xc0),
        Value::Bool(truth) => out.push(if *truth { 0xc3 } else { 0xc2 }),
        Value::Int(number @ 0..=127) => out.push(*number as u8),
        Value::Int(number) => {
            out.push(0xd3);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Value::F64(number) => {
            out.push(0xcb);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Value::Text(text) => {
            match text.len() {
                bytes @ 0..=31 => out.push(0xa0 | bytes as u8),
                bytes => put_length(0xdb, bytes, out),
            }
            out.extend_from_slice(text.as_bytes());
        }
        Value::Binary(bytes) => {
            put_length(0xc6, bytes.len(), out);
            out.extend_from_slice(bytes);
        }
        Value::Array(values) => {
            match values.len() {
                count @ 0..=15 => out.push(0x90 | count as u8),
                count => put_length(0xdd, count, out),
            }
            values.iter().for_each(|value| put(value, out));
        }
        Value::Map(pairs) => {
            match pairs.len() {
                count @ 0..=15 => out.push(0x80 | count as u8),
                count => put_length(0xdf, count, out),
            }
            for (key, value) in pairs {
                put(key, out);
                put(value, out);
            }
        }
        Value::Ext(kind, bytes) => {
            put_length(0xc9, bytes.len(), out);
            out.push(*kind as u8);
            out.extend_from_slice(bytes);
        }
    }
}

fn put_length(first: u8, length: usize, out: &mut Vec<u8>) {
    out.push(first);
    out.extend_from_slice(&(length as u32).to_be_bytes());
}
