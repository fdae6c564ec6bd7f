//! The tree of an expression.

use std::fmt;

use regex::bytes::Regex;

use crate::facts::Name;
use crate::sample::Fraction;
use crate::value::Value;

/// A node. Its operands are below it.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Constant(Constant),
    /// What a message has by this name.
    Name(Name),
    /// A field of a table: `.key`, or `["key"]`.
    Field(Box<Node>, String),
    /// Whether a message has it.
    HasName(Name),
    /// Whether a table has a field.
    HasField(Box<Node>, String),
    Compare(Comparison, Box<Node>, Box<Node>),
    /// An integer of the message and one of the expression: most comparisons.
    CompareInt(Comparison, Name, i64),
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    In(Box<Node>, Vec<Node>),
    InTable(Box<Node>, Box<Node>),
    Search(Search, Box<Node>, Box<Node>),
    Matches(Box<Node>, Regex),
    Sample(Fraction),
    Rare(Box<Rare>),
}

/// Nodes of few expressions, apart so that the stack of the common ones stays small.
#[derive(Clone, Debug)]
pub(super) enum Rare {
    /// `[index]`, whose index is not a text that is known.
    Index(Node, Node),
    Arithmetic(Operation, Node, Node),
    Negative(Node),
    /// Condition, and the two values.
    If([Node; 3]),
    Size(Node),
    Convert(Conversion, Node),
}

/// A value that is written in the expression.
#[derive(Clone, Debug)]
pub(super) enum Constant {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
}

impl Constant {
    #[inline]
    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Constant::Null => Value::Null,
            Constant::Bool(value) => Value::Bool(*value),
            Constant::Int(value) => Value::Int(*value),
            Constant::Uint(value) => Value::Uint(*value),
            Constant::Double(value) => Value::Double(*value),
            Constant::Text(text) => Value::text(text),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub(super) const ALL: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<", Comparison::Less),
        ("<=", Comparison::LessOrEqual),
        (">", Comparison::Greater),
        (">=", Comparison::GreaterOrEqual),
    ];

    /// The same with its operands exchanged.
    pub(super) fn exchanged(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operation {
    pub(super) const ALL: [(&str, Operation); 5] = [
        ("+", Operation::Add),
        ("-", Operation::Subtract),
        ("*", Operation::Multiply),
        ("/", Operation::Divide),
        ("%", Operation::Remainder),
    ];
}

/// How a text is searched for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    Contains,
    StartsWith,
    EndsWith,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conversion {
    Int,
    Double,
    Text,
    LowerAscii,
}

/// Why an expression has no result for a message. It borrows, so that a failure costs no more than a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure<'a> {
    /// The message has nothing by this name.
    NoName(&'static str),
    /// A table has no such field.
    NoField(&'a str),
    /// A value is of a type that an operator or a function does not take.
    Type(&'static str, &'static str),
    /// Two values do not compare, or cannot be calculated with.
    Types(&'static str, &'static str),
    /// A list is shorter.
    NoElement(i64),
    /// A number is too large, or a division is by zero.
    Range,
    /// A text is no number.
    NoNumber,
    /// The result is something else.
    NoTruth(&'static str),
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NoName(name) => write!(f, "the message has no {name}"),
            Failure::NoField(key) => write!(f, "there is no field {key:?}"),
            Failure::Type(what, kind) => write!(f, "{what} does not take {kind}"),
            Failure::Types(a, b) => write!(f, "{a} and {b} do not go together"),
            Failure::NoElement(index) => write!(f, "the list has no element {index}"),
            Failure::Range => f.write_str("a number is too large, or a division is by zero"),
            Failure::NoNumber => f.write_str("the text is not a number"),
            Failure::NoTruth(kind) => write!(f, "the result is {kind} instead of true or false"),
        }
    }
}
