//! An operand that was read, and what is known of its type.

use super::limits::DEPTH_MAX;
use super::mistake::Mistake;
use super::node::Node;

/// What is known of the type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It shows with the message.
    Any,
    Null,
    Bool,
    /// An integer of the message, or one without a `u` or a fraction.
    Int,
    Number,
    Text,
    Table,
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Any => "any value",
            Kind::Null => "null",
            Kind::Bool => "a truth value",
            Kind::Int => "an integer",
            Kind::Number => "a number",
            Kind::Text => "a text",
            Kind::Table => "a table",
        }
    }

    pub(super) fn may_be(self, wanted: Kind) -> bool {
        self == Kind::Any
            || wanted == Kind::Any
            || self == wanted
            || matches!((self, wanted), (Kind::Int, Kind::Number) | (Kind::Number, Kind::Int))
    }
}

/// A node that was read.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) node: Node,
    pub(super) kind: Kind,
    /// The byte at which it begins.
    pub(super) at: usize,
    /// How many nodes are below each other.
    pub(super) depth: u32,
}

impl Read {
    pub(super) fn leaf(node: Node, kind: Kind, at: usize) -> Read {
        Read { node, kind, at, depth: 1 }
    }

    /// A node above others.
    pub(super) fn above(node: Node, kind: Kind, at: usize, operands: &[u32]) -> Result<Read, Mistake> {
        let depth = 1 + operands.iter().max().unwrap_or(&0);
        if depth > DEPTH_MAX {
            return Err(too_deep(at));
        }
        Ok(Read { node, kind, at, depth })
    }

    /// Refuses a node that cannot be of a type.
    pub(super) fn must_be(&self, wanted: Kind, place: &str) -> Result<(), Mistake> {
        if self.kind.may_be(wanted) {
            return Ok(());
        }
        Err(Mistake {
            at: self.at,
            problem: format!("this is {}; {place} takes {}", self.kind.word(), wanted.word()),
        })
    }
}

pub(super) fn too_deep(at: usize) -> Mistake {
    Mistake { at, problem: format!("the expression nests more than {DEPTH_MAX} levels deep") }
}
