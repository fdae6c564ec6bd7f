//! What an expression says of a message.
//!
//! `&&` and `||` follow CEL: an operand that fails does not matter if the other one decides.

use std::borrow::Cow;
use std::cmp::Ordering;

use memchr::memmem;

use super::node::{Comparison, Conversion, Failure, Node, Operation, Rare, Search};
use crate::facts::Facts;
use crate::value::{Order, Table, Value};

type Evaluated<'a> = Result<Value<'a>, Failure<'a>>;

impl Node {
    /// The value for a message.
    pub(super) fn value<'a>(&'a self, facts: &'a Facts<'a>) -> Evaluated<'a> {
        match self {
            Node::Constant(constant) => Ok(constant.value()),
            Node::Name(name) => facts.value(*name).ok_or(Failure::NoName(name.word())),
            Node::CompareInt(comparison, name, constant) => {
                let found = facts.int(*name).ok_or(Failure::NoName(name.word()))?;
                Ok(Value::Bool(comparison.holds(found.cmp(constant))))
            }
            Node::Compare(comparison, left, right) => {
                compare(*comparison, &left.value(facts)?, &right.value(facts)?)
            }
            Node::And(nodes) => together(nodes, facts, false),
            Node::Or(nodes) => together(nodes, facts, true),
            Node::Not(node) => truth(node, facts).map(|truth| Value::Bool(!truth)),
            Node::Search(search, text, part) => search_in(*search, &text.value(facts)?, &part.value(facts)?),
            Node::Matches(text, pattern) => match text.value(facts)? {
                Value::Text(text) => Ok(Value::Bool(pattern.is_match(&text))),
                other => Err(Failure::Type("matches", other.kind())),
            },
            Node::Field(table, key) => table_of(table, facts)?.get(key).ok_or(Failure::NoField(key)),
            Node::HasName(name) => Ok(Value::Bool(facts.value(*name).is_some())),
            Node::HasField(table, key) => {
                table_of(table, facts).map(|table| Value::Bool(table.get(key).is_some()))
            }
            Node::In(node, elements) => is_in(&node.value(facts)?, elements, facts),
            Node::InTable(node, place) => is_in_value(&node.value(facts)?, &place.value(facts)?),
            Node::Sample(fraction) => Ok(Value::Bool(facts.is_sampled(*fraction))),
            Node::Rare(rare) => rare.value(facts),
        }
    }
}

impl Rare {
    #[inline(never)]
    fn value<'a>(&'a self, facts: &'a Facts<'a>) -> Evaluated<'a> {
        match self {
            Rare::Index(place, index) => at_index(&place.value(facts)?, &index.value(facts)?),
            Rare::Arithmetic(operation, left, right) => {
                calculate(*operation, left.value(facts)?, right.value(facts)?)
            }
            Rare::Negative(node) => negative(&node.value(facts)?),
            Rare::If([condition, then, otherwise]) => {
                if truth(condition, facts)? {
                    then.value(facts)
                } else {
                    otherwise.value(facts)
                }
            }
            Rare::Size(node) => size(&node.value(facts)?),
            Rare::Convert(conversion, node) => convert(*conversion, node.value(facts)?),
        }
    }
}

impl Comparison {
    #[inline]
    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order == Ordering::Equal,
            Comparison::NotEqual => order != Ordering::Equal,
            Comparison::Less => order == Ordering::Less,
            Comparison::LessOrEqual => order != Ordering::Greater,
            Comparison::Greater => order == Ordering::Greater,
            Comparison::GreaterOrEqual => order != Ordering::Less,
        }
    }
}

fn compare<'a>(comparison: Comparison, left: &Value<'a>, right: &Value<'a>) -> Evaluated<'a> {
    let holds = match comparison {
        Comparison::Equal => left.equals(right),
        Comparison::NotEqual => !left.equals(right),
        _ => match left.order(right) {
            Order::Of(order) => comparison.holds(order),
            Order::None => false,
            Order::Never => return Err(Failure::Types(left.kind(), right.kind())),
        },
    };
    Ok(Value::Bool(holds))
}

fn truth<'a>(node: &'a Node, facts: &'a Facts<'a>) -> Result<bool, Failure<'a>> {
    match node.value(facts)? {
        Value::Bool(truth) => Ok(truth),
        other => Err(Failure::Type("an operator of truth values", other.kind())),
    }
}

/// Evaluates until one operand decides; a failure counts only if none does.
fn together<'a>(nodes: &'a [Node], facts: &'a Facts<'a>, decisive: bool) -> Evaluated<'a> {
    let mut failure = None;
    for node in nodes {
        match truth(node, facts) {
            Ok(truth) if truth == decisive => return Ok(Value::Bool(decisive)),
            Ok(_) => {}
            Err(failed) => failure = failure.or(Some(failed)),
        }
    }
    failure.map_or(Ok(Value::Bool(!decisive)), Err)
}

fn search_in<'a>(search: Search, text: &Value<'a>, part: &Value<'a>) -> Evaluated<'a> {
    let (Value::Text(text), Value::Text(part)) = (text, part) else {
        return Err(Failure::Types(text.kind(), part.kind()));
    };
    Ok(Value::Bool(match search {
        Search::Contains => memmem::find(text, part).is_some(),
        Search::StartsWith => text.starts_with(part),
        Search::EndsWith => text.ends_with(part),
    }))
}

fn table_of<'a>(node: &'a Node, facts: &'a Facts<'a>) -> Result<Table<'a>, Failure<'a>> {
    match node.value(facts)? {
        Value::Table(table) => Ok(table),
        other => Err(Failure::Type("a field", other.kind())),
    }
}

/// As in CEL, a list with an element that fails fails, also if another element is equal.
fn is_in<'a>(value: &Value<'a>, elements: &'a [Node], facts: &'a Facts<'a>) -> Evaluated<'a> {
    let mut is_in = false;
    for element in elements {
        // A constant does not fail.
        if !is_in || !matches!(element, Node::Constant(_)) {
            is_in |= element.value(facts)?.equals(value);
        }
    }
    Ok(Value::Bool(is_in))
}

fn is_in_value<'a>(value: &Value<'a>, place: &Value<'a>) -> Evaluated<'a> {
    match (place, value) {
        (Value::List(list), _) => {
            Ok(Value::Bool(list.iter().any(|element| Value::json(element).equals(value))))
        }
        (Value::Table(table), Value::Text(key)) => {
            let key = std::str::from_utf8(key).ok();
            Ok(Value::Bool(key.is_some_and(|key| table.get(key).is_some())))
        }
        (Value::Table(_), _) => Ok(Value::Bool(false)),
        (other, _) => Err(Failure::Type("in", other.kind())),
    }
}

fn at_index<'a>(place: &Value<'a>, index: &Value<'a>) -> Evaluated<'a> {
    match (place, index) {
        (Value::List(list), Value::Int(index)) => {
            let element = usize::try_from(*index).ok().and_then(|index| list.get(index));
            element.map(Value::json).ok_or(Failure::NoElement(*index))
        }
        (Value::Table(table), Value::Text(key)) => {
            let found = std::str::from_utf8(key).ok().and_then(|key| table.get(key));
            found.ok_or(Failure::NoField("of that name"))
        }
        (place, index) => Err(Failure::Types(place.kind(), index.kind())),
    }
}

fn calculate<'a>(operation: Operation, left: Value<'a>, right: Value<'a>) -> Evaluated<'a> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => {
            let result = match operation {
                Operation::Add => left.checked_add(right),
                Operation::Subtract => left.checked_sub(right),
                Operation::Multiply => left.checked_mul(right),
                Operation::Divide => left.checked_div(right),
                Operation::Remainder => left.checked_rem(right),
            };
            result.map(Value::Int).ok_or(Failure::Range)
        }
        (Value::Uint(left), Value::Uint(right)) => {
            let result = match operation {
                Operation::Add => left.checked_add(right),
                Operation::Subtract => left.checked_sub(right),
                Operation::Multiply => left.checked_mul(right),
                Operation::Divide => left.checked_div(right),
                Operation::Remainder => left.checked_rem(right),
            };
            result.map(Value::Uint).ok_or(Failure::Range)
        }
        (Value::Double(left), Value::Double(right)) => match operation {
            Operation::Add => Ok(Value::Double(left + right)),
            Operation::Subtract => Ok(Value::Double(left - right)),
            Operation::Multiply => Ok(Value::Double(left * right)),
            Operation::Divide => Ok(Value::Double(left / right)),
            Operation::Remainder => Err(Failure::Types("a fraction", "the remainder of a division")),
        },
        (Value::Text(left), Value::Text(right)) if operation == Operation::Add => {
            Ok(Value::Text(Cow::Owned([left, right].concat())))
        }
        (left, right) => Err(Failure::Types(left.kind(), right.kind())),
    }
}

fn negative<'a>(value: &Value<'a>) -> Evaluated<'a> {
    match value {
        Value::Int(int) => int.checked_neg().map(Value::Int).ok_or(Failure::Range),
        Value::Double(double) => Ok(Value::Double(-double)),
        other => Err(Failure::Type("the sign", other.kind())),
    }
}

/// Characters of a text, where a group of bytes that are not UTF-8 is one character; elements of a list; fields of a table.
fn size<'a>(value: &Value<'a>) -> Evaluated<'a> {
    let size = match value {
        Value::Text(text) => text.utf8_chunks().fold(0, |sum, chunk| {
            sum + chunk.valid().chars().count() + usize::from(!chunk.invalid().is_empty())
        }),
        Value::List(list) => list.len(),
        Value::Table(table) => table.len(),
        other => return Err(Failure::Type("size", other.kind())),
    };
    i64::try_from(size).map(Value::Int).map_err(|_| Failure::Range)
}

fn convert(conversion: Conversion, value: Value<'_>) -> Evaluated<'_> {
    match (conversion, value) {
        (Conversion::Int, value) => int(&value).map(Value::Int),
        (Conversion::Double, Value::Int(int)) => Ok(Value::Double(int as f64)),
        (Conversion::Double, Value::Uint(uint)) => Ok(Value::Double(uint as f64)),
        (Conversion::Double, Value::Double(double)) => Ok(Value::Double(double)),
        (Conversion::Double, Value::Text(text)) => number(&text).map(Value::Double).ok_or(Failure::NoNumber),
        (Conversion::Text, Value::Int(int)) => Ok(written(&int)),
        (Conversion::Text, Value::Uint(uint)) => Ok(written(&uint)),
        (Conversion::Text, Value::Double(double)) => Ok(written(&double)),
        (Conversion::Text, Value::Bool(truth)) => Ok(Value::text(if truth { "true" } else { "false" })),
        (Conversion::Text, Value::Text(text)) => Ok(Value::Text(text)),
        (Conversion::LowerAscii, Value::Text(text)) => Ok(Value::Text(Cow::Owned(text.to_ascii_lowercase()))),
        (Conversion::Double, other) => Err(Failure::Type("double", other.kind())),
        (Conversion::Text, other) => Err(Failure::Type("string", other.kind())),
        (Conversion::LowerAscii, other) => Err(Failure::Type("lowerAscii", other.kind())),
    }
}

fn int<'a>(value: &Value<'a>) -> Result<i64, Failure<'a>> {
    match value {
        Value::Int(int) => Ok(*int),
        Value::Uint(uint) => i64::try_from(*uint).map_err(|_| Failure::Range),
        // 2^63 is the first that is too large; both ends of the range are fractions exactly.
        Value::Double(double) if double.abs() < 9_223_372_036_854_775_808.0 => Ok(*double as i64),
        Value::Double(_) => Err(Failure::Range),
        Value::Text(text) => number(text).ok_or(Failure::NoNumber),
        other => Err(Failure::Type("int", other.kind())),
    }
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn written<'a>(number: &impl ToString) -> Value<'a> {
    Value::Text(Cow::Owned(number.to_string().into_bytes()))
}
