//! Where a value of the configuration comes from.

use std::fmt;

/// Who gave a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The option of this name, of the command line or of the program around the server.
    Option(&'static str),
    /// The environment variable of this name.
    Variable(String),
    /// File, line and column.
    File(String),
}

impl Place {
    /// What stands in front of an error. An error about an option names the option itself.
    pub(super) fn prefix(&self) -> String {
        match self {
            Place::Option(_) => String::new(),
            Place::Variable(_) | Place::File(_) => format!("{self}: "),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Option(name) => write!(f, "option --{name}"),
            Place::Variable(name) => write!(f, "environment variable {name}"),
            Place::File(place) => f.write_str(place),
        }
    }
}
