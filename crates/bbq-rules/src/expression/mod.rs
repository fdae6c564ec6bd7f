//! Expressions of CEL: a text becomes a tree once, which is evaluated for each message.
//!
//! ```text
//! text --token--> words --parse--> Node, with types checked as far as they are known --evaluate--> keep | leave out | failed
//! ```
//!
//! Supported is what decides about a message: comparisons, `&&`, `||`, `!`, `?:`, `in`, arithmetic, `has`, and functions of texts and
//! numbers. Not there: literals of maps and bytes, lists except behind `in`, and the macros `all`, `exists`, `map` and `filter`. A text that
//! uses them is refused at the start. What is there means what it means in the interpreter of the crate `cel` (tests/differential.rs).
//!
//! Invariant: the depth of a tree, its size and the memory of its patterns have bounds, so no expression exhausts a stack.

mod evaluate;
mod functions;
mod limits;
mod mistake;
mod node;
mod operand;
mod parse;
mod token;

use crate::facts::{Facts, Scope};
use crate::value::Value;
use node::Node;

pub(crate) use node::Failure;

/// Longer ones are programs, and belong into a program.
const TEXT_BYTES_MAX: usize = 4096;
/// An expression that says of a message whether it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    text: String,
    root: Node,
}

impl Expression {
    /// Reads an expression, whose names are those of the scope.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub(crate) fn of(text: &str, scope: &Scope) -> Result<Expression, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("the expression has {} bytes; allowed: 1 to {TEXT_BYTES_MAX}", text.len()));
        }
        let root = parse::root(text, scope).map_err(|mistake| mistake.shown(text))?;
        Ok(Expression { text: text.to_owned(), root })
    }

    /// As it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the message is to be kept.
    ///
    /// # Errors
    /// The message has not what the expression asks for.
    #[inline]
    pub(crate) fn decides<'a>(&'a self, facts: &'a Facts<'a>) -> Result<bool, Failure<'a>> {
        match self.root.value(facts)? {
            Value::Bool(keeps) => Ok(keeps),
            other => Err(Failure::NoTruth(other.kind())),
        }
    }
}

#[cfg(test)]
mod tests;
