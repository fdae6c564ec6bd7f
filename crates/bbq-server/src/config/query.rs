//! The `?key=value&...` behind a SPEC: each key at most once, each known, each value checked where it stands.

use super::error::ConfigError;
use super::quantity::parse_bytes;

/// The options of one SPEC. Each known option is taken out; what is left in the end is unknown.
pub(super) struct Query<'a> {
    spec: &'a str,
    pairs: Vec<(&'a str, &'a str)>,
    known: Vec<&'static str>,
    taken: Vec<&'static str>,
}

impl<'a> Query<'a> {
    /// Splits a SPEC at its question mark.
    pub(super) fn split(spec: &'a str) -> Result<(&'a str, Query<'a>), ConfigError> {
        let (head, query) = spec.split_once('?').unwrap_or((spec, ""));
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                return Err(ConfigError::new(format!("{spec:?}: {part:?} has no value; write {part}=...")));
            };
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(ConfigError::new(format!("{spec:?}: {key} is given twice")));
            }
            pairs.push((key, value));
        }
        Ok((head, Query { spec, pairs, known: Vec::new(), taken: Vec::new() }))
    }

    /// Takes an option, read by `read`, which says what is allowed when it cannot.
    pub(super) fn take<T>(
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
    pub(super) fn take_word<T: Copy>(
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
    pub(super) fn take_bytes(
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
    pub(super) fn was_given(&self, key: &str) -> bool {
        self.taken.contains(&key)
    }

    /// Refuses options that were not taken.
    pub(super) fn finish(self) -> Result<(), ConfigError> {
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
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let score = |candidate: &str| strsim::jaro_winkler(word, candidate);
    let best = known.iter().copied().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(best) > 0.75).then_some(best)
}
