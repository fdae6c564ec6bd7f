//! The TOML file, as it is written: every key optional, unknown ones refused.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::error::ConfigError;
use super::quantity::parse_bytes;
use super::query::nearest;
use super::spec_text::SpecValue;

const KEYS: [&str; 14] = [
    "listen",
    "sink",
    "data",
    "workers",
    "distribution",
    "stall_threshold_ms",
    "admin",
    "drain_timeout_seconds",
    "upgrade_timeout_seconds",
    "hello_timeout_seconds",
    "batch_timeout_seconds",
    "evict_idle_seconds",
    "unfinished_bytes_max",
    "spool",
];
const SPOOL_KEYS: [&str; 3] = ["bytes_max", "segment_bytes", "flush_interval_ms"];

/// The keys of the file. See `docs/CONFIGURATION.md` for what each means.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    pub(super) listen: Option<Vec<Spanned<SpecValue>>>,
    pub(super) sink: Option<Vec<Spanned<SpecValue>>>,
    pub(super) data: Option<PathBuf>,
    pub(super) workers: Option<usize>,
    pub(super) distribution: Option<Spanned<String>>,
    pub(super) stall_threshold_ms: Option<u64>,
    pub(super) admin: Option<Spanned<String>>,
    pub(super) drain_timeout_seconds: Option<u64>,
    pub(super) upgrade_timeout_seconds: Option<u64>,
    pub(super) hello_timeout_seconds: Option<u64>,
    pub(super) batch_timeout_seconds: Option<u64>,
    pub(super) evict_idle_seconds: Option<u64>,
    pub(super) unfinished_bytes_max: Option<Spanned<Bytes>>,
    #[serde(default)]
    pub(super) spool: SpoolSection,
    #[serde(skip)]
    source: Source,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpoolSection {
    pub(super) bytes_max: Option<Spanned<Bytes>>,
    pub(super) segment_bytes: Option<Spanned<Bytes>>,
    pub(super) flush_interval_ms: Option<u64>,
}

/// A number of bytes, or a text such as "10GiB".
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Bytes {
    Number(u64),
    Text(String),
}

/// The file's name and text, to say where something stands.
#[derive(Clone, Debug, Default)]
struct Source {
    path: PathBuf,
    text: String,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// That it cannot be read, is no TOML, or has a key that nobody knows: with its place and the nearest known key.
    pub fn read(path: &Path) -> Result<ConfigFile, ConfigError> {
        let text = fs::read_to_string(path)
            .map_err(|error| ConfigError::new(format!("cannot read {}: {error}", path.display())))?;
        if text.trim().is_empty() {
            return Err(ConfigError::new(format!(
                "{} is empty, so it is probably still being written; write it elsewhere and rename it to this name. To run \
                 with the defaults, write a comment into it, such as \"# defaults\"",
                path.display()
            )));
        }
        let source = Source { path: path.to_owned(), text };
        match toml::from_str::<ConfigFile>(&source.text) {
            Ok(file) => Ok(ConfigFile { source, ..file }),
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                let found = source.text.get(span.clone()).unwrap_or_default();
                let message = explain(error.message(), found);
                Err(ConfigError::new(message).at(source.place(span.start)))
            }
        }
    }

    /// Where a value stands.
    pub(super) fn place<T>(&self, value: &Spanned<T>) -> String {
        self.source.place(value.span().start)
    }

    pub(super) fn bytes(
        &self,
        key: &str,
        value: &Option<Spanned<Bytes>>,
        default: u64,
    ) -> Result<u64, ConfigError> {
        let Some(value) = value else { return Ok(default) };
        match value.get_ref() {
            Bytes::Number(bytes) => Ok(*bytes),
            Bytes::Text(text) => parse_bytes(text)
                .map_err(|problem| ConfigError::new(format!("{key}: {problem}")).at(self.place(value))),
        }
    }
}

impl Source {
    fn place(&self, offset: usize) -> String {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        format!("{}:{line}:{column}: ", self.path.display())
    }
}

/// Puts the nearest known key to what the parser says of an unknown one.
fn explain(message: &str, found: &str) -> String {
    let message = message.trim();
    let Some(rest) = message.strip_prefix("unknown field `") else { return message.to_owned() };
    let key = rest.split('`').next().unwrap_or(found);
    let known: &[&str] = if rest.contains("`bytes_max`") { &SPOOL_KEYS } else { &KEYS };
    match nearest(key, known) {
        Some(near) => format!("unknown key {key:?}; did you mean {near:?}? known keys: {}", known.join(", ")),
        None => format!("unknown key {key:?}; known keys: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(text: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bbq.toml");
        fs::write(&path, text).unwrap();
        let error = super::super::Config::load(Some(&path), &super::super::Overrides::default()).unwrap_err();
        error.to_string().replace(&directory.path().display().to_string(), "")
    }

    #[test]
    fn an_unknown_key_is_named_with_its_place_and_the_nearest() {
        let error = error_of("workers = 2\n\nlisten_on = []\n");
        assert!(
            error.starts_with("/bbq.toml:3:1: unknown key \"listen_on\"; did you mean \"listen\"?"),
            "{error}"
        );
        let error = error_of("[spool]\nbyte_max = 1\n");
        assert!(
            error.starts_with("/bbq.toml:2:1: unknown key \"byte_max\"; did you mean \"bytes_max\"?"),
            "{error}"
        );
    }

    #[test]
    fn a_wrong_value_is_named_with_its_place() {
        let error = error_of("listen = [\"lines+tcp://127.0.0.1:1\",\n  \"lnes+tcp://127.0.0.1:2\"]\n");
        assert!(error.starts_with("/bbq.toml:2:3: "), "{error}");
        assert!(error.contains("did you mean \"lines\""), "{error}");
        let error = error_of("[spool]\nsegment_bytes = \"64 MB please\"\n");
        assert!(error.starts_with("/bbq.toml:2:17: spool.segment_bytes"), "{error}");
        assert!(error_of("workers = 0\n").contains("1 to 256"));
        assert!(error_of("workers = \"two\"\n").starts_with("/bbq.toml:1:11: "));
        assert!(error_of("listen = []\n").contains("nothing could ever come in"));
    }
}
