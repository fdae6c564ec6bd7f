//! Replaces what must not be stored or passed on.
//!
//! The patterns are applied one after the other, each to what the ones before it have left. In a record of OpenTelemetry, they are applied to
//! each text (`otlp`).
//!
//! Invariant: a replaced record is no longer than it was, or than 64 KiB. Beyond that a match is left out instead of replaced.

mod growth;
mod otlp;
mod substitution;
mod texts;

use bbq_wire::SourceKind;

use growth::Growth;
use substitution::substitutions;
use texts::Texts;

/// Replacements, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Redaction {
    text: String,
    texts: Texts,
}

impl Redaction {
    /// Reads `s/PATTERN/WITH/`, or several.
    ///
    /// # Errors
    /// What is wrong, and which of them it is.
    pub(crate) fn of(text: &str) -> Result<Redaction, String> {
        Ok(Redaction { text: text.to_owned(), texts: Texts(substitutions(text)?) })
    }

    /// As it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Appends the replaced record to `out`. Returns `false`, and appends nothing, if nothing matches.
    pub(crate) fn apply(&self, source: SourceKind, record: &[u8], out: &mut Vec<u8>) -> bool {
        let growth = || Growth::of(record.len());
        if source == SourceKind::Otlp
            && let Some(is_changed) = otlp::apply(&self.texts, record, &mut growth(), out)
        {
            return is_changed;
        }
        self.texts.apply(record, &mut growth(), out)
    }
}

#[cfg(test)]
mod tests {
    use super::growth::GROWN_BYTES_MAX;
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
        // A match may be empty where a text is not.
        assert_eq!(replaced("s/^\\b/> /", "text"), text("> text"));
    }

    #[test]
    fn what_follows_a_match_in_a_record_of_opentelemetry_stays() {
        let request = |body: &str| {
            let log =
                serde_json::json!({ "body": { "stringValue": body }, "severityText": "INFO", "flags": 1 });
            let scope = serde_json::json!({ "name": "a secret scope", "version": "1" });
            let request = serde_json::json!({ "resourceLogs": [{
                "resource": { "attributes": [{ "key": "k", "value": { "stringValue": "v" } }] },
                "scopeLogs": [{ "scope": scope, "logRecords": [log] }],
            }] });
            bbq_format::otlp::from_json(request.to_string().as_bytes()).unwrap().request
        };
        let redaction = Redaction::of("s/sesame/***/; s/open/shut/").unwrap();
        let mut out = b"before".to_vec();
        assert!(redaction.apply(SourceKind::Otlp, &request("open sesame, open"), &mut out));
        assert_eq!(out.strip_prefix(b"before"), Some(&*request("shut ***, shut")));
        out.clear();
        assert!(!redaction.apply(SourceKind::Otlp, &request("nothing"), &mut out) && out.is_empty());
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
