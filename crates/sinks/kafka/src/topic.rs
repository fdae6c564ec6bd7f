//! Names of topics, and keys that are made from fields of messages.

use bbq_format::names::{Field, NameRules, NameTemplate};

/// What Kafka allows.
const TOPIC_BYTES_MAX: usize = 249;
/// Topics of a day: each has partitions, and a broker bears some 4,000 of these.
const TOPICS_MAX: usize = 1000;
/// Bytes of a key: more than its fields have in most cases.
const KEY_BYTES_MAX: usize = 1024;

static RULES: NameRules = NameRules {
    what: "topic",
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
    bytes_max: TOPIC_BYTES_MAX,
    names_max: Some(TOPICS_MAX),
};

static KEY_RULES: NameRules = NameRules {
    what: "key",
    fields: &Field::ALL,
    missing: "none",
    letter: |letter| letter,
    bytes_max: KEY_BYTES_MAX,
    names_max: None,
};

/// Also a dot and an underscore: brokers refuse a topic whose name differs from another one by these alone.
fn letter(letter: char) -> char {
    if letter.is_ascii_alphanumeric() { letter } else { '-' }
}

/// Reads the template of topics.
///
/// # Errors
/// Says what is wrong.
pub(super) fn parse(text: &str) -> Result<NameTemplate, String> {
    let template = NameTemplate::parse(text, &RULES)?;
    check_topic(template.fallback())?;
    if template.begins_with_sender() {
        return Err(format!(
            "senders could choose any topic; write a text before the first field of {text:?}, such as logs-"
        ));
    }
    Ok(template)
}

/// Reads the template of keys.
///
/// # Errors
/// Says what is wrong.
pub(super) fn parse_key(text: &str) -> Result<NameTemplate, String> {
    NameTemplate::parse(text, &KEY_RULES)
}

/// Checks the name of a topic.
///
/// # Errors
/// Says what is wrong.
pub(super) fn check_topic(topic: &str) -> Result<(), String> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if topic.is_empty() {
        Err("it has no topic".to_owned())
    } else if !topic.chars().all(is_allowed) || [".", ".."].contains(&topic) {
        Err(format!("{topic:?} is not the name of a topic; use letters, digits, dot, _ and -"))
    } else if topic.len() > TOPIC_BYTES_MAX {
        Err(format!(
            "the name of a topic has at most {TOPIC_BYTES_MAX} characters, {topic:?} has {}",
            topic.len()
        ))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_of_topics_begins_with_its_own_text() {
        for text in ["logs", "logs-{host}", "l.{listener}.{app}", "{date}-{host}", "logs_{date:%Y.%m.%d}"] {
            assert!(parse(text).is_ok(), "{text}");
        }
        for (text, says) in [
            ("{host}-logs", "senders could choose any topic"),
            ("{app}", "senders could choose any topic"),
            ("{listener}-{date}", "senders could choose any topic"),
            ("logs-{stream}", "{stream} cannot be in a topic"),
            ("logs-{date:%Y/%m}", "is not the name of a topic"),
            ("lögs-{host}", "is not the name of a topic"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert!(parse_key("{host}/{app}").is_ok());
    }

    /// Brokers refuse a topic whose name differs from another one in dots and underscores alone.
    #[test]
    fn no_two_names_of_a_template_collide() {
        let field = |text: &str| text.chars().map(letter).collect::<String>();
        assert_eq!(field("web_1.example/é {}"), "web-1-example-----");
    }
}
