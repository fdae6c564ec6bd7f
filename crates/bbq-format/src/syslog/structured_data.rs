//! Structured data (RFC 5424, section 6.3): `[id name="value" ...][id ...]`, or `-`.

use serde_json::{Map, Value};

/// By the name of an element, its parameters. A parameter that comes more than once, as the RFC's own example has it, is an array.
#[derive(Debug, Default, PartialEq)]
pub(super) struct StructuredData(pub(super) Map<String, Value>);

impl StructuredData {
    /// Reads the data at the front of a text, and returns what stands behind them and a blank; `None` if they are not valid.
    pub(super) fn read(text: &str) -> Option<(StructuredData, &str)> {
        let mut data = StructuredData::default();
        let rest = match text.strip_prefix('-') {
            Some(rest) => rest,
            None => {
                let mut rest = data.element(text)?;
                while rest.starts_with('[') {
                    rest = data.element(rest)?;
                }
                rest
            }
        };
        match rest.strip_prefix(' ') {
            Some(msg) => Some((data, msg)),
            None => rest.is_empty().then_some((data, rest)),
        }
    }

    /// Adds the element at the front of a text, and returns what stands behind it.
    fn element<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let (id, mut rest) = name(text.strip_prefix('[')?)?;
        let mut params = Map::new();
        loop {
            if let Some(behind) = rest.strip_prefix(']') {
                self.add(id, params);
                return Some(behind);
            }
            let (key, behind) = name(rest.strip_prefix(' ')?)?;
            let (value, behind) = value(behind.strip_prefix("=\"")?)?;
            add(&mut params, key, value);
            rest = behind;
        }
    }

    /// The RFC forbids two elements of one name. Some senders write them; all parameters are kept.
    fn add(&mut self, id: &str, params: Map<String, Value>) {
        match self.0.get_mut(id) {
            Some(Value::Object(there)) => params.into_iter().for_each(|(key, value)| match value {
                Value::Array(values) => values.into_iter().for_each(|value| add(there, &key, value)),
                value => add(there, &key, value),
            }),
            _ => drop(self.0.insert(id.to_owned(), Value::Object(params))),
        }
    }
}

fn add(params: &mut Map<String, Value>, key: &str, value: Value) {
    match params.get_mut(key) {
        None => drop(params.insert(key.to_owned(), value)),
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

/// The name at the front of a text, and what stands behind it.
fn name(text: &str) -> Option<(&str, &str)> {
    let is_of_name = |c: char| c.is_ascii_graphic() && !"=]\"".contains(c);
    let end = text.find(|c| !is_of_name(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// The value in front of the next quote that is not escaped, and what stands behind the quote. Before other characters than `"`, `\` and
/// `]`, a backslash is one (section 6.3.3).
fn value(text: &str) -> Option<(Value, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let at = rest.find(['"', '\\'])?;
        value.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        if rest[at..].starts_with('"') {
            return Some((Value::String(value), behind));
        }
        match behind.chars().next() {
            Some(escaped @ ('"' | '\\' | ']')) => {
                value.push(escaped);
                rest = &behind[1..];
            }
            _ => {
                value.push('\\');
                rest = behind;
            }
        }
    }
}
