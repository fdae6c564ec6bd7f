//! A sink SPEC: `KIND:ARGUMENT[?key=value&...]`.

use std::fmt;
use std::sync::Arc;

use super::kind::{Kind, Target};
use super::kinds::SINK_KINDS;
use crate::config::ConfigError;
use crate::config::query::{Query, nearest};
use crate::config::spec_text::SpecText;

/// A checked sink SPEC.
#[derive(Clone, Debug)]
pub struct SinkSpec {
    /// As it was written.
    pub text: String,
    /// The name its cursor is kept under: the SPEC without its options, unless it has one.
    pub name: String,
    /// Without options.
    pub(crate) head: String,
    kind: &'static Kind,
    pub(super) target: Arc<dyn Target>,
}

impl PartialEq for SinkSpec {
    fn eq(&self, other: &SinkSpec) -> bool {
        // A value of a table may have an ampersand, which looks like another option in the text.
        self.text == other.text && self.name == other.name
    }
}

impl Eq for SinkSpec {}

/// As it was written.
impl fmt::Display for SinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl SinkSpec {
    /// Reads a SPEC.
    ///
    /// # Errors
    /// Says which part is wrong and what is allowed.
    pub fn parse(text: &str) -> Result<SinkSpec, ConfigError> {
        SinkSpec::of(&SpecText::of_text(text)?)
    }

    /// Reads a SPEC that is in parts already.
    ///
    /// # Errors
    /// Says which part is wrong and what is allowed.
    pub(crate) fn of(spec: &SpecText) -> Result<SinkSpec, ConfigError> {
        let SpecText { text, head, .. } = spec;
        let (word, argument) = head.split_once(':').unwrap_or((head, ""));
        let Some(kind) = SINK_KINDS.into_iter().find(|kind| kind.word == word && head.contains(':')) else {
            return Err(ConfigError::new(no_sink(text, word)));
        };
        match (kind.argument, argument) {
            ("", "") => {}
            ("", _) => {
                return Err(ConfigError::new(format!(
                    "{text:?}: nothing stands behind {word}:; write {word}:"
                )));
            }
            (form, "") => {
                return Err(ConfigError::new(format!("{text:?} names no {form}; write {word}:{form}")));
            }
            _ => {}
        }
        let mut query = Query::of(spec);
        let name = query.take_name(spec)?;
        let target = (kind.parse)(argument, &mut query)?;
        query.finish()?;
        Ok(SinkSpec { text: text.clone(), name, head: head.clone(), kind, target })
    }

    /// Whether both would write to the same place.
    pub(crate) fn clashes_with(&self, other: &SinkSpec) -> bool {
        self.kind.is_exclusive && self.head == other.head
    }

    /// One that was not written.
    pub(super) fn of_target(name: &str, kind: &'static Kind, target: Arc<dyn Target>) -> SinkSpec {
        SinkSpec { text: name.to_owned(), name: name.to_owned(), head: name.to_owned(), kind, target }
    }
}

fn no_sink(text: &str, word: &str) -> String {
    let words = SINK_KINDS.map(|kind| kind.word);
    let hint = nearest(word, &words).map(|near| format!(" (did you mean {near}:?)")).unwrap_or_default();
    let forms = SINK_KINDS.map(|kind| format!("{}:{} ({})", kind.word, kind.argument, kind.summary));
    format!("{text:?} is no sink{hint}; write {}", forms.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_the_interface() {
        let spec = "file:/var/log/all.log?format=json&rotate_bytes=100MiB&rotate=daily&keep=7&name=all";
        let spec = SinkSpec::parse(spec).unwrap();
        let target = format!("{:?}", spec.target);
        for part in ["/var/log/all.log", "Json", "bytes: Some(104857600), daily: true, keep: Some(7)"] {
            assert!(target.contains(part), "{target}");
        }
        assert_eq!(spec.name, "all");
        assert_eq!(SinkSpec::parse("stdout:").unwrap().name, "stdout:");
        assert_eq!(SinkSpec::parse("null:").unwrap().name, "null:");
    }

    #[test]
    fn each_mistake_names_the_part_and_the_remedy() {
        for (spec, says) in [
            ("/var/log/x", "file:PATH"),
            ("fil:/var/log/x", "did you mean file:?"),
            ("file", "file:PATH"),
            ("file:", "names no PATH"),
            ("null:x", "nothing stands behind null:"),
            ("file:x?format=xml", "raw, json"),
            ("file:x?keep=3", "without rotate"),
            ("file:x?name=", "is no name"),
            ("stdout:?rotate=daily", "unknown option \"rotate\""),
        ] {
            let error = SinkSpec::parse(spec).unwrap_err().to_string();
            assert!(error.contains(says), "{spec}: {error}");
        }
    }

    #[test]
    fn every_option_is_known_and_described() {
        for kind in SINK_KINDS {
            let argument = if kind.argument.is_empty() { "" } else { "x" };
            let error =
                SinkSpec::parse(&format!("{}:{argument}?nonsense=1", kind.word)).unwrap_err().to_string();
            let known = "known options: ";
            let listed = &error[error.find(known).expect("it lists them") + known.len()..];
            let described = kind.options.iter().map(|option| option.key);
            let described: Vec<&str> = std::iter::once("name").chain(described).collect();
            assert_eq!(listed, described.join(", "));
        }
    }
}
