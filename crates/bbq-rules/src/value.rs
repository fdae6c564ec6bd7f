//! Values of expressions, and how they compare.
//!
//! A text is bytes: those of a message need not be UTF-8. Bytes that are not UTF-8 equal no character of an expression, except that each
//! group of them counts as one character in `size`.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Map, Value as Json};

use crate::message::FieldSet;
use crate::parse::{Found, Parsed};

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Cow<'a, [u8]>),
    List(&'a [Json]),
    Table(Table<'a>),
}

impl<'a> Value<'a> {
    /// A text of the message or of the expression.
    pub(crate) fn text(text: &'a (impl AsRef<[u8]> + ?Sized)) -> Value<'a> {
        Value::Text(Cow::Borrowed(text.as_ref()))
    }

    /// A value of JSON. As in CEL's own mapping, integers stay integers here, since numbers of all types compare.
    pub(crate) fn json(value: &'a Json) -> Value<'a> {
        match value {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(int), _) => Value::Int(int),
                (None, Some(uint)) => Value::Uint(uint),
                (None, None) => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::text(text),
            Json::Array(values) => Value::List(values),
            Json::Object(map) => Value::Table(Table::Json(map)),
        }
    }

    /// What a value is, for errors.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a truth value",
            Value::Int(_) | Value::Uint(_) => "an integer",
            Value::Double(_) => "a fraction",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// Whether both are equal. Values of different types are not, but numbers are compared as numbers. Two tables are never equal, as
    /// nobody can write one.
    #[inline]
    pub(crate) fn equals(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(*b).all(|(a, b)| Value::json(a).equals(&Value::json(b)))
            }
            _ => numbers(self, other) == Some(Ordering::Equal),
        }
    }

    /// How both compare; `None` if they do not.
    #[inline]
    pub(crate) fn order(&self, other: &Value<'_>) -> Order {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => Order::Of(a.cmp(b)),
            (Value::Text(a), Value::Text(b)) => Order::Of(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) => Order::Of(a.cmp(b)),
            _ if self.is_number() && other.is_number() => numbers(self, other).map_or(Order::None, Order::Of),
            _ => Order::Never,
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Value::Int(_) | Value::Uint(_) | Value::Double(_))
    }
}

/// A table of a message.
#[derive(Clone, Debug)]
pub(crate) enum Table<'a> {
    Json(&'a Map<String, Json>),
    Fields(FieldSet<'a>),
    Parsed(&'a Parsed<'a>),
    Empty,
}

impl<'a> Table<'a> {
    pub(crate) fn get(&self, key: &str) -> Option<Value<'a>> {
        match self {
            Table::Json(map) => map.get(key).map(Value::json),
            Table::Fields(fields) => fields.get(key).map(Value::text),
            Table::Parsed(parsed) => parsed.get(key).map(|found| match found {
                Found::Json(json) => Value::json(json),
                Found::Text(text) => Value::text(text),
            }),
            Table::Empty => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Table::Json(map) => map.len(),
            Table::Fields(fields) => fields.len(),
            Table::Parsed(parsed) => parsed.len(),
            Table::Empty => 0,
        }
    }
}

/// How two values compare.
pub(crate) enum Order {
    Of(Ordering),
    /// One of them is no number.
    None,
    /// Values of these types do not compare.
    Never,
}

/// Compares numbers of any types exactly; `None` with NaN, or if one is no number.
fn numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    let whole = |value: &Value<'_>| match value {
        Value::Int(int) => Some(i128::from(*int)),
        Value::Uint(uint) => Some(i128::from(*uint)),
        _ => None,
    };
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), b) => Some(with_fraction(whole(b)?, *a)?.reverse()),
        (a, Value::Double(b)) => with_fraction(whole(a)?, *b),
        (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
    }
}

/// Compares an integer with a fraction. A conversion would round an integer of more than 53 bits.
fn with_fraction(int: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // The conversion cuts the fraction off, and stays at the ends of the range.
    let cut = double.trunc();
    let order = int.cmp(&(cut as i128));
    let of_fraction = if double > cut { Ordering::Less } else { Ordering::Greater };
    Some(if order == Ordering::Equal && double != cut { of_fraction } else { order })
}
