//! What a destination allows in its names.

use crate::names::Field;

/// See the module.
#[derive(Debug)]
pub struct NameRules {
    /// What is named, for errors: `subject`.
    pub what: &'static str,
    /// The fields that a template may have.
    pub fields: &'static [Field],
    /// What is in place of a field that a message does not have, or that is empty.
    pub missing: &'static str,
    /// What becomes of a letter of a field. It returns no letter that separates parts of a name, or that the destination refuses.
    pub letter: fn(char) -> char,
    /// Most bytes of a name.
    pub bytes_max: usize,
    /// Most different names in a day, if they cost the destination anything. Messages with further names get
    /// [`NameTemplate::fallback`](crate::names::NameTemplate::fallback).
    pub names_max: Option<usize>,
}
