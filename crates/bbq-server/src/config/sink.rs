//! A sink SPEC: `file:PATH[?key=value&...]` or `stdout:[?key=value&...]`.

use std::path::PathBuf;

use super::error::ConfigError;
use super::query::Query;

/// How a message is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The message as it came, and a line feed unless it ends with one.
    #[default]
    Raw,
    /// One JSON object per line, with what is known of the message.
    Json,
}

/// When a file is set aside and a new one begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Once it has this many bytes.
    pub bytes: Option<u64>,
    /// When the day changes (UTC).
    pub daily: bool,
    /// How many files that were set aside are kept; `None` keeps all.
    pub keep: Option<u32>,
}

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkTarget {
    /// Appended to a file.
    File(PathBuf),
    /// Written to standard output.
    Stdout,
}

/// A checked sink SPEC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkSpec {
    /// As it was written.
    pub text: String,
    /// Without options: the name its cursor is kept under.
    pub name: String,
    /// Where messages go.
    pub target: SinkTarget,
    /// How they are written.
    pub format: Format,
    /// For files.
    pub rotation: Rotation,
}

impl SinkSpec {
    /// Reads a SPEC.
    ///
    /// # Errors
    /// Says which part is wrong and what is allowed.
    pub fn parse(text: &str) -> Result<SinkSpec, ConfigError> {
        let (head, mut query) = Query::split(text)?;
        let target = match head.split_once(':') {
            Some(("file", "")) => {
                return Err(ConfigError::new(format!("{text:?} names no file; write file:PATH")));
            }
            Some(("file", path)) => SinkTarget::File(PathBuf::from(path)),
            Some(("stdout", "")) => SinkTarget::Stdout,
            _ => {
                return Err(ConfigError::new(format!(
                    "{text:?} is no sink; write file:PATH, or stdout: for standard output"
                )));
            }
        };
        let format =
            query.take_word("format", &[("raw", Format::Raw), ("json", Format::Json)])?.unwrap_or_default();
        let mut rotation = Rotation::default();
        if matches!(target, SinkTarget::File(_)) {
            rotation = Rotation {
                bytes: query.take_bytes("rotate_bytes", 4096..=1 << 50)?,
                daily: query.take_word("rotate", &[("daily", true), ("never", false)])?.unwrap_or_default(),
                keep: query.take("keep", |value| match value.parse::<u32>() {
                    Ok(count) if count >= 1 => Ok(count),
                    _ => Err(format!("{value:?} is no number of files; write 1 or more")),
                })?,
            };
        }
        query.finish()?;
        if rotation.keep.is_some() && rotation.bytes.is_none() && !rotation.daily {
            return Err(ConfigError::new(format!(
                "{text:?}: keep has no meaning without rotate or rotate_bytes"
            )));
        }
        Ok(SinkSpec { text: text.to_owned(), name: head.to_owned(), target, format, rotation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_the_interface() {
        let spec =
            SinkSpec::parse("file:/var/log/all.log?format=json&rotate_bytes=100MiB&rotate=daily&keep=7")
                .unwrap();
        assert_eq!(spec.target, SinkTarget::File("/var/log/all.log".into()));
        assert_eq!(spec.rotation, Rotation { bytes: Some(100 << 20), daily: true, keep: Some(7) });
        assert_eq!(SinkSpec::parse("stdout:").unwrap().format, Format::Raw);
    }

    #[test]
    fn each_mistake_names_the_part_and_the_remedy() {
        for (spec, says) in [
            ("/var/log/x", "file:PATH"),
            ("file:", "names no file"),
            ("file:x?format=xml", "raw, json"),
            ("file:x?keep=3", "without rotate"),
            ("stdout:?rotate=daily", "unknown option \"rotate\""),
        ] {
            let error = SinkSpec::parse(spec).unwrap_err().to_string();
            assert!(error.contains(says), "{spec}: {error}");
        }
    }
}
