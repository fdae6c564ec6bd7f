//! A SPEC as it is written: a text such as `file:PATH?format=json`, or in the file a table with `spec` and the options as keys.

use serde::Deserialize;

use super::error::ConfigError;

/// What stands in front of the options, and the options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpecText {
    /// All of it as one text, for people.
    pub(crate) text: String,
    pub(crate) head: String,
    pub(crate) options: Vec<(String, String)>,
}

/// How a SPEC stands in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a SPEC in quotes, or a table with spec = \"SPEC\", name and options")]
pub(super) enum SpecValue {
    Text(String),
    Table(toml::Table),
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

    pub(super) fn of_value(value: &SpecValue) -> Result<SpecText, ConfigError> {
        match value {
            SpecValue::Text(text) => SpecText::of_text(text),
            SpecValue::Table(table) => SpecText::of_table(table),
        }
    }

    fn of_table(table: &toml::Table) -> Result<SpecText, ConfigError> {
        let Some(toml::Value::String(text)) = table.get("spec") else {
            return Err(ConfigError::new(
                "the table has no spec; write spec = \"SPEC\", as on the command line",
            ));
        };
        let mut spec = SpecText::of_text(text)?;
        for (key, value) in table.iter().filter(|(key, _)| *key != "spec") {
            let value = match value {
                toml::Value::String(value) => value.clone(),
                toml::Value::Integer(value) => value.to_string(),
                toml::Value::Boolean(value) => value.to_string(),
                other => {
                    let kind = other.type_str();
                    return Err(ConfigError::new(format!(
                        "{key} is of type {kind}; write a text or a number"
                    )));
                }
            };
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
