//! Subjects: the template of a SPEC, what it stands for, and which subjects a stream has.

use async_nats::Subject;
use bbq_format::syslog::{self, SyslogFields};
use bbq_spool::Entry;

/// In place of what a token of a subject cannot have, and of a field that a message does not have.
const REPLACEMENT: char = '_';
/// A longer field is cut: servers keep an index of all subjects.
const FIELD_CHARS_MAX: usize = 128;

/// What differs between subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Listener,
    Stream,
    Lane,
    Facility,
    Severity,
    Host,
}

const FIELDS: [(&str, Field); 6] = [
    ("listener", Field::Listener),
    ("stream", Field::Stream),
    ("lane", Field::Lane),
    ("facility", Field::Facility),
    ("severity", Field::Severity),
    ("host", Field::Host),
];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(Field),
}

/// A subject with fields in braces, such as `logs.{listener}.{host}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    parts: Vec<Part>,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(super) fn parse(text: &str) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            let (name, after) = behind.split_once('}').ok_or("a brace is not closed")?;
            let field = FIELDS.iter().find(|(known, _)| *known == name).map(|(_, field)| *field);
            let names = || FIELDS.map(|(name, _)| format!("{{{name}}}")).join(", ");
            let field = field.ok_or_else(|| format!("{{{name}}} is not one of {}", names()))?;
            parts.extend((!before.is_empty()).then(|| Part::Text(before.to_owned())));
            parts.push(Part::Field(field));
            rest = after;
        }
        parts.extend((!rest.is_empty()).then(|| Part::Text(rest.to_owned())));
        let template = Template { parts };
        check_subject(&template.filter())?;
        if template
            .parts
            .iter()
            .any(|part| matches!(part, Part::Text(text) if text.contains(['*', '>', '}'])))
        {
            return Err("a subject to send to has no *, > or }".to_owned());
        }
        Ok(template)
    }

    /// A subject with a wildcard for each token that has a field: it has all subjects of the template.
    pub(super) fn filter(&self) -> String {
        let whole: String = self
            .parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::Field(_) => "*",
            })
            .collect();
        let token = |token: &str| if token.contains('*') { "*".to_owned() } else { token.to_owned() };
        whole.split('.').map(token).collect::<Vec<_>>().join(".")
    }

    /// Whether messages of a batch may have different subjects.
    pub(super) fn is_per_message(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::Field(Field::Facility | Field::Severity | Field::Host)))
    }

    /// The subject of a message of an entry.
    pub(super) fn subject(&self, entry: &Entry<'_>, message: &[u8]) -> Subject {
        let fields = if self.is_per_message() {
            syslog::read(message, entry.origin().received_ns)
        } else {
            SyslogFields::default()
        };
        let mut subject = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => subject.push_str(text),
                Part::Field(Field::Listener) => put_token(entry.origin().listener, &mut subject),
                Part::Field(Field::Stream) => subject.push_str(&entry.batch.header.stream.to_string()),
                Part::Field(Field::Lane) => subject.push_str(&entry.lane.to_string()),
                Part::Field(Field::Facility) => put_token(fields.facility.unwrap_or_default(), &mut subject),
                Part::Field(Field::Severity) => put_token(fields.severity.unwrap_or_default(), &mut subject),
                Part::Field(Field::Host) => {
                    put_token(fields.hostname.as_deref().unwrap_or_default(), &mut subject)
                }
            }
        }
        subject.into()
    }
}

/// Appends a text as a part of a token.
fn put_token(text: &str, subject: &mut String) {
    let allowed = |letter: char| match letter {
        '.' | '*' | '>' | '{' | '}' => REPLACEMENT,
        letter if letter.is_whitespace() || letter.is_control() => REPLACEMENT,
        letter => letter,
    };
    if text.is_empty() {
        subject.push(REPLACEMENT);
    }
    subject.extend(text.chars().take(FIELD_CHARS_MAX).map(allowed));
}

/// Checks a subject or a filter.
///
/// # Errors
/// Says what is wrong.
pub(super) fn check_subject(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("it has no subject".to_owned());
    }
    if text.split('.').any(str::is_empty) {
        return Err(format!("the subject {text:?} has an empty part; dots stand between parts"));
    }
    if text.contains(|letter: char| letter.is_whitespace() || letter.is_control() || letter == '/') {
        return Err(format!("the subject {text:?} has a blank, a slash or a control character"));
    }
    if text.starts_with('$') {
        return Err(format!("the subject {text:?} is one of the server's own"));
    }
    Ok(())
}

/// Whether every subject of `filter` is one of `pattern`.
pub(super) fn covers(pattern: &str, filter: &str) -> bool {
    let mut filter = filter.split('.');
    for token in pattern.split('.') {
        match (token, filter.next()) {
            (">", Some(_)) => return true,
            ("*", Some(other)) if other != ">" => {}
            (token, Some(other)) if token == other => {}
            _ => return false,
        }
    }
    filter.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_has_fields_and_stands_for_subjects() {
        let filter = |text: &str| Template::parse(text).map(|template| template.filter());
        assert_eq!(filter("logs").unwrap(), "logs");
        assert_eq!(filter("logs.{listener}.x-{host}.{lane}").unwrap(), "logs.*.*.*");
        for (text, says) in [
            ("logs.{hosts}", "{listener}, {stream}, {lane}, {facility}, {severity}, {host}"),
            ("logs.{host", "not closed"),
            ("logs.*", "no *, > or }"),
            ("logs..x", "empty part"),
            ("", "no subject"),
            ("logs/x", "slash"),
            ("$JS.x", "server's own"),
        ] {
            let error = filter(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_field_becomes_one_token() {
        let mut subject = "logs.".to_owned();
        put_token("syslog+udp://0.0.0.0:514 *>", &mut subject);
        assert_eq!(subject, "logs.syslog+udp://0_0_0_0:514___");
        subject.clear();
        put_token("", &mut subject);
        assert_eq!(subject, "_");
    }

    #[test]
    fn a_stream_covers_subjects() {
        for (pattern, filter) in
            [("logs", "logs"), ("logs.>", "logs.*.x"), (">", "a"), ("a.*", "a.b"), ("a.*", "a.*")]
        {
            assert!(covers(pattern, filter), "{pattern} {filter}");
        }
        for (pattern, filter) in
            [("logs", "logs.x"), ("logs.>", "logs"), ("a.*", "a.b.c"), ("a.b", "a.*"), ("a.*", "a.>")]
        {
            assert!(!covers(pattern, filter), "{pattern} {filter}");
        }
    }
}
