//! The error of a configuration.

/// A mistake in the configuration, for the operator to fix. Nothing was opened.
#[derive(Debug, thiserror::Error)]
#[error("{place}{message}")]
pub struct ConfigError {
    /// File, line and column, or an environment variable, followed by a colon; empty for the command line.
    place: String,
    message: String,
    /// What of a SPEC is wrong, if it is one option.
    part: Option<Part>,
}

/// What of an option is wrong, with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The key: nobody knows it, or it must not be there.
    Key(String),
    /// The value.
    Value(String),
}

impl ConfigError {
    /// An error without a place.
    pub fn new(message: impl Into<String>) -> ConfigError {
        ConfigError { place: String::new(), message: message.into(), part: None }
    }

    /// The same about one option of a SPEC.
    #[must_use]
    pub fn about(self, part: Part) -> ConfigError {
        ConfigError { part: Some(part), ..self }
    }

    /// What of a SPEC is wrong, if it is one option.
    #[must_use]
    pub fn part(&self) -> Option<&Part> {
        self.part.as_ref()
    }

    /// The same at this place, unless it has one already.
    #[must_use]
    pub fn at(self, place: impl Into<String>) -> ConfigError {
        if self.place.is_empty() { ConfigError { place: place.into(), ..self } } else { self }
    }
}
