//! Names of destinations that are made from fields of messages: `logs.{listener}.{host}`, `logs-{date:%Y.%m.%d}`.
//!
//! A [`NameTemplate`] is such a text, read and checked. [`Names`] makes the name of each message, and bounds how many different names there
//! are in a day: senders choose hosts and programs, and a topic, an index or a subject costs the destination something.
//!
//! What a destination allows in its names is in its [`NameRules`].
//!
//! Invariant: a field cannot add a separator of the destination to a name: it becomes a part of the name that is never empty, but in values
//! of labels.
//! Invariant: a name is made of the message and the template alone, unless there are too many names.

mod date;
mod field;
mod known;
mod rules;
mod template;

pub use field::Field;
pub use known::Names;
pub use rules::NameRules;
pub use template::{NameTemplate, OTHER, Piece};
