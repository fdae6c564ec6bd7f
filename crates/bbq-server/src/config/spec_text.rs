//! A SPEC before it is parsed: a text such as `file:PATH?format=json`, or in the file a table with `spec` and the options as keys.

use toml::de::{DeTable, DeValue};

use super::error::ConfigError;

/// The part in front of the options, and the options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpecText {
    /// All of it as one text, for people.
    pub(crate) text: String,
    pub(crate) head: String,
    pub(crate) options: Vec<(String, String)>,
}

impl SpecText {
    /// Splits a SPEC at its question mark.
    ///
    /// # Errors
    /// An option has no value, or is given twice.
    pub(crate) fn of_text(text: &str) -> Result<SpecText, ConfigError> {
        let (head, options) = text.split_once('?').unwrap_or((text, ""));
        let mut spec = SpecText { text: text.to_owned(), head: head.to_owned(), options: Vec::new() };
        for part in options.split('&').filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                return Err(ConfigError::new(format!("{text:?}: {part:?} has no value; write {part}=...")));
            };
            spec.add(key, value.to_owned())?;
        }
        Ok(spec)
    }

    pub(super) fn of_value(value: &DeValue<'_>) -> Result<SpecText, ConfigError> {
        match value {
            DeValue::String(text) => SpecText::of_text(text),
            DeValue::Table(table) => SpecText::of_table(table),
            other => Err(ConfigError::new(format!(
                "this is of type {}; write a SPEC in quotes, or a table with spec = \"SPEC\", name and options",
                other.type_str()
            ))),
        }
    }

    fn of_table(table: &DeTable<'_>) -> Result<SpecText, ConfigError> {
        let Some(DeValue::String(text)) = table.get("spec").map(|value| value.get_ref()) else {
            return Err(ConfigError::new(
                "the table has no spec; write spec = \"SPEC\", as on the command line",
            ));
        };
        let mut spec = SpecText::of_text(text)?;
        for (key, value) in table.iter().filter(|(key, _)| key.get_ref() != "spec") {
            let (key, value) = (key.get_ref(), scalar(key.get_ref(), value.get_ref())?);
            let before = if spec.options.is_empty() { '?' } else { '&' };
            spec.text.push_str(&format!("{before}{key}={value}"));
            spec.add(key, value)?;
        }
        Ok(spec)
    }

    fn add(&mut self, key: &str, value: String) -> Result<(), ConfigError> {
        if self.options.iter().any(|(known, _)| known == key) {
            return Err(ConfigError::new(format!("{:?}: {key} is given twice", self.text)));
        }
        self.options.push((key.to_owned(), value));
        Ok(())
    }
}

/// The value of a key as a text.
///
/// # Errors
/// It is a list, a table, a fraction or a time.
pub(super) fn scalar(key: &str, value: &DeValue<'_>) -> Result<String, ConfigError> {
    match value {
        DeValue::String(text) => Ok(text.clone().into_owned()),
        DeValue::Integer(number) => {
            let decimal = i64::from_str_radix(number.as_str(), number.radix());
            Ok(decimal.map_or_else(|_| number.to_string(), |decimal| decimal.to_string()))
        }
        DeValue::Boolean(value) => Ok(value.to_string()),
        other => {
            let kind = other.type_str();
            Err(ConfigError::new(format!("{key} is of type {kind}; write a text or a number")))
        }
    }
}
