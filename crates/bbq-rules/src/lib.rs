//! Rules of listeners, readers and sinks: which messages are kept (`where`, `sample`), what is replaced in them (`redact`), and which fields
//! are found in them (`parse`).
//!
//! [`Rules`] are read from the options of a SPEC once, and asked for each [`Message`]. The names of expressions are in `facts`, their
//! language is in `expression`, replacements are in `redact`.
//!
//! Not here: what is done with a message that is left out, and how it is counted.
//!
//! Invariant: nothing here does I/O, except for a line in the log when an expression fails.
//! Invariant: no message makes it panic, and none costs more than time and memory in proportion to its size.

#![forbid(unsafe_code)]

mod expression;
mod facts;
mod fields;
mod filter;
mod message;
mod options;
mod parse;
mod redact;
mod rules;
mod sample;
mod value;

pub use bbq_format::FIELD_ALIASES;
pub use filter::Filter;
pub use message::{Attributes, FieldSet, Message, Scratch};
pub use options::{Place, rule_options};
pub use rules::Rules;
