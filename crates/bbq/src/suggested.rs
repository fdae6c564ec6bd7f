//! Values that a shell completes, and that are not all that is allowed.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

/// Takes any text; what it means is checked where it is used. The words are for completion.
#[derive(Clone)]
pub(crate) struct Suggested(Vec<String>);

impl Suggested {
    pub(crate) fn new<T: ToString>(words: impl IntoIterator<Item = T>) -> Suggested {
        Suggested(words.into_iter().map(|word| word.to_string()).collect())
    }
}

impl TypedValueParser for Suggested {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}
