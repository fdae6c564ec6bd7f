//! The functions of expressions: what each is called with, and the node that it becomes.

use bbq_spec::hint;
use regex::bytes::RegexBuilder;

use super::limits::{PATTERN_BYTES_MAX, PATTERN_CACHE_BYTES_MAX};
use super::mistake::Mistake;
use super::node::{Constant, Conversion, Node, Rare, Search};
use super::operand::{Kind, Read};
use crate::sample::Fraction;

/// How a function is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `f(x)`
    Function,
    /// `x.f()`
    Method,
    Both,
}

/// Every function, its form, how many arguments it has with that in front of the point, and an example.
const FUNCTIONS: [(&str, Form, usize, &str); 11] = [
    ("contains", Form::Method, 2, "message.contains(\"text\")"),
    ("startsWith", Form::Method, 2, "message.startsWith(\"text\")"),
    ("endsWith", Form::Method, 2, "message.endsWith(\"text\")"),
    ("matches", Form::Both, 2, "message.matches(\"pattern\")"),
    ("lowerAscii", Form::Method, 1, "host.lowerAscii()"),
    ("size", Form::Both, 1, "size(message)"),
    ("has", Form::Function, 1, "has(fields.name)"),
    ("int", Form::Function, 1, "int(parsed.status)"),
    ("double", Form::Function, 1, "double(parsed.seconds)"),
    ("string", Form::Function, 1, "string(parsed.status)"),
    ("sample", Form::Function, 1, "sample(0.1)"),
];

/// Macros of CEL that are not here.
const MACROS: [&str; 5] = ["all", "exists", "exists_one", "map", "filter"];

/// The node of a call, and its type.
pub(super) fn call(
    word: &str,
    arguments: Vec<Read>,
    is_method: bool,
    at: usize,
) -> Result<(Node, Kind), Mistake> {
    let wrong = |problem: String| Mistake { at, problem };
    let Some((word, form, count, example)) = FUNCTIONS.into_iter().find(|(known, ..)| *known == word) else {
        if MACROS.contains(&word) {
            return Err(wrong(format!("the macro {word} of CEL is not supported")));
        }
        let known = FUNCTIONS.map(|(known, ..)| known);
        return Err(wrong(format!(
            "{word:?} is not a function{}; functions: {}",
            hint(word, &known),
            known.join(", ")
        )));
    };
    let is_form = match form {
        Form::Both => true,
        Form::Method => is_method,
        Form::Function => !is_method,
    };
    if !is_form || arguments.len() != count {
        return Err(wrong(format!("{word} is written like this: {example}")));
    }
    let mut arguments = arguments.into_iter();
    match (arguments.next(), arguments.next()) {
        (Some(first), None) => with_one(word, first, at),
        (Some(first), Some(second)) => with_two(word, first, second),
        _ => Err(wrong(format!("{word} is written like this: {example}"))),
    }
}

fn with_two(word: &str, text: Read, argument: Read) -> Result<(Node, Kind), Mistake> {
    text.must_be(Kind::Text, word)?;
    argument.must_be(Kind::Text, word)?;
    let search = match word {
        "contains" => Search::Contains,
        "startsWith" => Search::StartsWith,
        "endsWith" => Search::EndsWith,
        _ => return matches(text, &argument),
    };
    Ok((Node::Search(search, Box::new(text.node), Box::new(argument.node)), Kind::Bool))
}

/// A pattern is compiled once, so it has to be written in the expression.
fn matches(text: Read, pattern: &Read) -> Result<(Node, Kind), Mistake> {
    let wrong = |problem: String| Mistake { at: pattern.at, problem };
    let Node::Constant(Constant::Text(pattern)) = &pattern.node else {
        return Err(wrong("the pattern of matches has to be a text in quotes".to_owned()));
    };
    let compiled = RegexBuilder::new(pattern)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_CACHE_BYTES_MAX)
        .build()
        .map_err(|error| wrong(format!("{pattern:?} is not a pattern: {error}")))?;
    Ok((Node::Matches(Box::new(text.node), compiled), Kind::Bool))
}

fn with_one(word: &str, argument: Read, at: usize) -> Result<(Node, Kind), Mistake> {
    let rare = |node: Rare| Node::Rare(Box::new(node));
    match word {
        "has" => return has(argument).map(|node| (node, Kind::Bool)),
        "sample" => return sample(&argument, at).map(|node| (node, Kind::Bool)),
        "size" => {
            if !matches!(argument.kind, Kind::Any | Kind::Text | Kind::Table) {
                argument.must_be(Kind::Text, word)?;
            }
            return Ok((rare(Rare::Size(argument.node)), Kind::Int));
        }
        "lowerAscii" => {
            argument.must_be(Kind::Text, word)?;
            return Ok((rare(Rare::Convert(Conversion::LowerAscii, argument.node)), Kind::Text));
        }
        _ => {}
    }
    if matches!(argument.kind, Kind::Table | Kind::Null) || (argument.kind == Kind::Bool && word != "string")
    {
        argument.must_be(Kind::Number, word)?;
    }
    let (conversion, kind) = match word {
        "int" => (Conversion::Int, Kind::Int),
        "double" => (Conversion::Double, Kind::Number),
        _ => (Conversion::Text, Kind::Text),
    };
    Ok((rare(Rare::Convert(conversion, argument.node)), kind))
}

/// As in CEL for a field of a table; here also for a name, since messages of some kinds do not have it.
fn has(argument: Read) -> Result<Node, Mistake> {
    match argument.node {
        Node::Field(table, key) => Ok(Node::HasField(table, key)),
        Node::Name(name) => Ok(Node::HasName(name)),
        _ => Err(Mistake {
            at: argument.at,
            problem: "has takes a name or a field, for example has(fields.name)".to_owned(),
        }),
    }
}

fn sample(argument: &Read, at: usize) -> Result<Node, Mistake> {
    let fraction = match argument.node {
        Node::Constant(Constant::Double(double)) => Fraction::of(double),
        Node::Constant(Constant::Int(1)) => Fraction::of(1.0),
        _ => None,
    };
    fraction.map(Node::Sample).ok_or_else(|| Mistake {
        at,
        problem: "sample takes a fraction above 0 and up to 1, for example sample(0.1)".to_owned(),
    })
}
