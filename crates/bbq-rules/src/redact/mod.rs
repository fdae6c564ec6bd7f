//! Replaces what must not be stored or passed on.
//!
//! The patterns are applied one after the other, each to what the ones before it have left. In a record of OpenTelemetry, they are applied to
//! each text (`otlp`).
//!
//! Invariant: a replaced record is no longer than it was, or than [`GROWN_BYTES_MAX`]. Beyond that a match is left out instead of replaced.

mod otlp;
mod substitution;

use bbq_wire::SourceKind;

use substitution::{Substitution, substitutions};

/// How long a record may become: less than the limits of listeners allow by default, so that the next server takes it.
const GROWN_BYTES_MAX: usize = 64 * 1024;

/// Replacements, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Redaction {
    text: String,
    substitutions: Vec<Substitution>,
}

/// How many bytes more a record may get.
struct Growth(usize);

impl Redaction {
    /// Reads `s/PATTERN/WITH/`, or several.
    ///
    /// # Errors
    /// What is wrong, and which of them it is.
    pub(crate) fn of(text: &str) -> Result<Redaction, String> {
        Ok(Redaction { text: text.to_owned(), substitutions: substitutions(text)? })
    }

    /// As it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Appends the replaced record to `out`. Returns `false`, and appends nothing, if nothing matches.
    pub(crate) fn apply(&self, source: SourceKind, record: &[u8], out: &mut Vec<u8>) -> bool {
        let mut growth = Growth(GROWN_BYTES_MAX.saturating_sub(record.len()));
        if source == SourceKind::Otlp
            && let Some(is_changed) = otlp::apply(self, record, &mut growth, out)
        {
            return is_changed;
        }
        self.apply_to_text(record, &mut growth, out)
    }

    fn apply_to_text(&self, text: &[u8], growth: &mut Growth, out: &mut Vec<u8>) -> bool {
        let from = out.len();
        let mut is_changed = false;
        for substitution in &self.substitutions {
            if !is_changed {
                is_changed = substitution.apply(text, growth, out);
                continue;
            }
            let mut next = Vec::new();
            if substitution.apply(&out[from..], growth, &mut next) {
                out.truncate(from);
                out.append(&mut next);
            }
        }
        is_changed
    }

    /// Whether anything in a text would be replaced.
    fn matches(&self, text: &[u8]) -> bool {
        self.substitutions.iter().any(|substitution| substitution.matches(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(rules: &str, text: &str) -> Option<String> {
        let mut out = b"before".to_vec();
        let is_changed = Redaction::of(rules).unwrap().apply(SourceKind::Lines, text.as_bytes(), &mut out);
        let out = String::from_utf8(out).unwrap();
        let found = out.strip_prefix("before").unwrap().to_owned();
        assert!(is_changed || found.is_empty());
        is_changed.then_some(found)
    }

    #[test]
    fn matches_are_replaced_and_the_rest_stays() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            replaced("s/password=\\S+/password=***/", "a password=x b password=y"),
            text("a password=*** b password=***")
        );
        assert_eq!(replaced("s/secret/x/", "nothing here"), None);
        assert_eq!(replaced("s|(\\w+)@\\w+|$1@…|", "me@home, you@work"), text("me@…, you@…"));
        assert_eq!(replaced("s/(?<user>\\w+)@\\w+/${user}@/", "me@home"), text("me@"));
        assert_eq!(replaced("s/SECRET//i", "a secret b"), text("a  b"));
        assert_eq!(replaced("s/a\\/b/c\\/d/", "a/b"), text("c/d"));
        // Each sees what those before it have left.
        assert_eq!(replaced("s/a/b/; s/b/c/", "ab"), text("cc"));
        assert_eq!(replaced("s/a/b/; s/x/y/", "x"), text("y"));
    }

    #[test]
    fn a_record_does_not_grow_beyond_its_bound() {
        let rules = format!("s/a/{}/", "b".repeat(100));
        let text = "a".repeat(10_000);
        let grown = replaced(&rules, &text).unwrap();
        assert!(grown.len() <= GROWN_BYTES_MAX && grown.len() > GROWN_BYTES_MAX - 100, "{}", grown.len());
        assert!(!grown.contains('a'), "what matches is gone in any case");
        let long = "a".repeat(GROWN_BYTES_MAX + 1);
        let grown = replaced(&rules, &long).unwrap();
        assert!(grown.len() <= long.len() && !grown.contains('a'), "{} bytes", grown.len());
        assert!(replaced("s/a/b/", &long).unwrap() == "b".repeat(GROWN_BYTES_MAX + 1));
    }
}
