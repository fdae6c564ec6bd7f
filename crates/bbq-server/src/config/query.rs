//! The `?key=value&...` behind a SPEC: each key at most once, each known, each value checked where it stands.

use super::error::ConfigError;
use super::quantity::parse_bytes;
use super::spec_text::SpecText;

/// An option of a SPEC, as help and documentation show it.
#[derive(Clone, Copy, Debug)]
pub struct SpecOption {
    /// The word in front of the equals sign, and the key in a table of the file.
    pub key: &'static str,
    /// What may stand behind it.
    pub values: &'static str,
    /// What holds without it.
    pub default: &'static str,
    /// What it is for.
    pub meaning: &'static str,
}

/// The name of a listener or a sink, which every kind has.
pub const NAME_OPTION: SpecOption = SpecOption {
    key: "name",
    values: "1 to 200 bytes",
    default: "the SPEC without its options",
    meaning: "what it is called in the spool, the status and the log; another name is another listener or sink",
};
/// The spool shortens a longer name (512 bytes), and 256 of these fit the header of the smallest segment.
const NAME_BYTES_MAX: usize = 200;

/// The options of one SPEC. Each is taken out by whoever knows it; what is left in the end nobody knows.
pub(crate) struct Query<'a> {
    spec: &'a str,
    pairs: Vec<(&'a str, &'a str)>,
    known: Vec<&'static str>,
    taken: Vec<&'static str>,
}

impl<'a> Query<'a> {
    pub(crate) fn of(spec: &'a SpecText) -> Query<'a> {
        let pairs = spec.options.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        Query { spec: &spec.text, pairs, known: Vec::new(), taken: Vec::new() }
    }

    /// Takes the name, or makes one of the SPEC in front of its options.
    pub(crate) fn take_name(&mut self, spec: &SpecText) -> Result<String, ConfigError> {
        let name = self.take(NAME_OPTION.key, |name| {
            if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
                return Err(format!(
                    "{name:?} is no name; write 1 to {NAME_BYTES_MAX} bytes without control characters"
                ));
            }
            Ok(name.to_owned())
        })?;
        Ok(name.unwrap_or_else(|| spec.head.clone()))
    }

    /// Takes an option, read by `read`, which says what is allowed when it cannot.
    pub(crate) fn take<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        self.known.push(key);
        let Some(index) = self.pairs.iter().position(|(known, _)| *known == key) else { return Ok(None) };
        self.taken.push(key);
        let (_, value) = self.pairs.swap_remove(index);
        read(value)
            .map(Some)
            .map_err(|problem| ConfigError::new(format!("{:?}: {key}: {problem}", self.spec)))
    }

    /// Takes an option that is one of a few words.
    pub(crate) fn take_word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, ConfigError> {
        self.take(key, |value| {
            words.iter().find(|(word, _)| *word == value).map(|(_, meaning)| *meaning).ok_or_else(|| {
                let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                format!("{value:?} is not one of {}", known.join(", "))
            })
        })
    }

    /// Takes a number of bytes within a range.
    pub(crate) fn take_bytes(
        &mut self,
        key: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, ConfigError> {
        self.take(key, |value| {
            let bytes = parse_bytes(value)?;
            if range.contains(&bytes) {
                Ok(bytes)
            } else {
                Err(format!("{bytes} is out of range; allowed is {} to {} bytes", range.start(), range.end()))
            }
        })
    }

    /// Whether an option was there and taken.
    pub(crate) fn was_given(&self, key: &str) -> bool {
        self.taken.contains(&key)
    }

    /// Refuses options that were not taken.
    pub(crate) fn finish(self) -> Result<(), ConfigError> {
        let Some((key, _)) = self.pairs.first() else { return Ok(()) };
        let hint =
            nearest(key, &self.known).map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default();
        let known = self.known.join(", ");
        Err(ConfigError::new(format!(
            "{:?}: unknown option {key:?}{hint}; known options: {known}",
            self.spec
        )))
    }
}

/// The known word that a typing error away from is likely to have been meant.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let score = |candidate: &str| strsim::jaro_winkler(word, candidate);
    let best = known.iter().copied().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(best) > 0.75).then_some(best)
}
