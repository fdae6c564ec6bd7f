//! The error of a configuration.

/// A mistake in the configuration, for the operator to fix. Nothing was opened.
#[derive(Debug, thiserror::Error)]
#[error("{place}{message}")]
pub struct ConfigError {
    /// File, line and column, or an environment variable, followed by a colon; empty for the command line.
    place: String,
    message: String,
}

impl ConfigError {
    pub(crate) fn new(message: impl Into<String>) -> ConfigError {
        ConfigError { place: String::new(), message: message.into() }
    }

    pub(crate) fn at(self, place: impl Into<String>) -> ConfigError {
        if self.place.is_empty() { ConfigError { place: place.into(), ..self } } else { self }
    }
}
