//! What a reader is configured to be: `file:GLOB[?key=value&...]`.

use bbq_spec::{ConfigError, NAME_OPTION, Query, SpecOption, SpecText};

/// The options of readers, beside the name.
pub static READ_OPTIONS: [SpecOption; 0] = [];

/// A checked SPEC of a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadSpec {
    /// The SPEC as it was configured.
    pub text: String,
    /// The reader's name in the ledger and the spool. Without the option `name`: the SPEC without options.
    pub source: String,
    /// Which files to read.
    pub glob: String,
}

impl ReadSpec {
    /// Reads a SPEC.
    ///
    /// # Errors
    /// Says which part is wrong and what is allowed.
    pub fn parse(text: &str) -> Result<ReadSpec, ConfigError> {
        ReadSpec::of(&SpecText::of_text(text)?)
    }

    /// Reads a SPEC that is already split.
    ///
    /// # Errors
    /// Says which part is wrong and what is allowed.
    pub fn of(spec: &SpecText) -> Result<ReadSpec, ConfigError> {
        let SpecText { text, head, .. } = spec;
        let mut query = Query::of(spec, [&NAME_OPTION].into_iter().chain(&READ_OPTIONS))?;
        let shape = || {
            ConfigError::new(format!(
                "{text:?} is not a reader; write file:GLOB, for example file:/var/log/*.log"
            ))
        };
        let glob = head.strip_prefix("file:").filter(|glob| !glob.is_empty()).ok_or_else(shape)?;
        let spec = ReadSpec { text: text.clone(), source: query.take_name(spec)?, glob: glob.to_owned() };
        query.finish()?;
        Ok(spec)
    }
}
