//! The index of each message, for Elasticsearch and OpenSearch.
//!
//! A message that comes twice is there once because its id is the same in the same index. So the index is made of what is stored with the
//! message.

use bbq_format::names::{Field, NameRules, NameTemplate, Piece};
use bbq_spec::{SpecOption, Values};

/// What the servers allow.
const INDEX_BYTES_MAX: usize = 255;
/// Indices of a day: a node has at most 1,000 shards unless it is configured, and an index has a shard and its copy.
const INDICES_MAX: usize = 500;
/// What no name of an index has.
const FORBIDDEN: &str = "\\/*?\"<>| ,#:";

pub(super) const OPTION: SpecOption = SpecOption {
    key: "index",
    values: Values::Text { form: "NAME, with fields such as {listener} or {date:%Y.%m.%d}", pattern: "" },
    default: "that of the path",
    meaning: "for preset=elasticsearch: the index of each message; the path is then `/_bulk`",
};

static RULES: NameRules = NameRules {
    what: "name of an index",
    fields: &[
        Field::Listener,
        Field::Host,
        Field::App,
        Field::Facility,
        Field::Severity,
        Field::Date,
        Field::Parsed,
        Field::OfReader,
    ],
    missing: "none",
    letter,
    bytes_max: INDEX_BYTES_MAX,
    names_max: Some(INDICES_MAX),
};

fn letter(letter: char) -> char {
    let letter = letter.to_ascii_lowercase();
    if letter.is_ascii_lowercase() || letter.is_ascii_digit() || "._-".contains(letter) {
        letter
    } else {
        '-'
    }
}

/// Reads the template of indices.
///
/// # Errors
/// Says what is wrong.
pub(super) fn parse(text: &str) -> Result<NameTemplate, String> {
    let template = NameTemplate::parse(text, &RULES)?;
    let name = template.fallback();
    if template.pieces().next().is_none_or(|piece| piece == Piece::Any) {
        return Err(format!(
            "{text:?} does not begin with a text of its own, such as logs-: a server refuses some beginnings, and senders could choose any \
             index"
        ));
    }
    if let Some(letter) = name.chars().find(|letter| letter.is_uppercase() || letter.is_control()) {
        return Err(format!("{text:?} has {letter:?}; the name of an index must be in lower case"));
    }
    if let Some(letter) = name.chars().find(|letter| FORBIDDEN.contains(*letter)) {
        return Err(format!("{text:?} has {letter:?}, which the name of an index cannot have"));
    }
    if name.starts_with(['-', '_', '+', '.']) {
        return Err(format!("{text:?} begins with {:?}; the name of an index must not", &name[..1]));
    }
    Ok(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_in_an_index_are_named() {
        for text in ["logs", "logs-{listener}-{date:%Y.%m.%d}", "a{host}{app}"] {
            assert!(parse(text).is_ok(), "{text}");
        }
        for (text, says) in [
            ("", "does not begin with a text"),
            ("{listener}-logs", "does not begin with a text"),
            ("{date}", "does not begin with a text"),
            ("Logs-{host}", "'L'; the name of an index must be in lower case"),
            ("logs-{date:%Y/%m}", "has '/', which the name of an index cannot have"),
            ("_logs", "begins with \"_\""),
            ("logs-{stream}", "{stream} cannot be in a name of an index"),
            (&"x".repeat(256), "at most 255 bytes"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert_eq!("Web_1.Example/é".chars().map(letter).collect::<String>(), "web_1.example--");
    }
}
