//! Subjects: the template of a SPEC, what it stands for, and which subjects a stream has.

use bbq_format::names::{Field, NameRules, NameTemplate, Piece};

/// In place of what a token of a subject cannot have.
const REPLACEMENT: char = '_';
/// Bytes of a subject: a server takes 4,096 for its line, unless it is configured.
const SUBJECT_BYTES_MAX: usize = 1024;
/// Subjects of a day: with more, the index of a stream would take more than 10 MB of the server's memory for each day that it keeps.
const SUBJECTS_MAX: usize = 100_000;

/// How subjects are made. A server keeps an index of all subjects of a stream, some 100 bytes for each.
pub(super) static RULES: NameRules = NameRules {
    what: "subject",
    fields: &[
        Field::Listener,
        Field::Stream,
        Field::Lane,
        Field::Facility,
        Field::Severity,
        Field::Host,
        Field::App,
        Field::Date,
        Field::Parsed,
        Field::OfReader,
    ],
    missing: "_",
    letter,
    bytes_max: SUBJECT_BYTES_MAX,
    names_max: Some(SUBJECTS_MAX),
};

/// What becomes of a letter of a field: the field is one token, or a part of one.
fn letter(letter: char) -> char {
    match letter {
        '.' | '*' | '>' | '{' | '}' => REPLACEMENT,
        letter if letter.is_whitespace() || letter.is_control() => REPLACEMENT,
        letter => letter,
    }
}

/// Reads the template of subjects.
///
/// # Errors
/// Says what is wrong.
pub(super) fn parse(text: &str) -> Result<NameTemplate, String> {
    let template = NameTemplate::parse(text, &RULES)?;
    check_subject(template.fallback())?;
    if template.fallback().contains(['*', '>']) {
        return Err("a subject to send to has no * or >".to_owned());
    }
    Ok(template)
}

/// A subject with a wildcard for each token that has a field: it has all subjects of the template.
pub(super) fn filter(template: &NameTemplate) -> String {
    let pieces = template.pieces().map(|piece| match piece {
        Piece::Text(text) => text,
        Piece::Any => "*",
    });
    let whole: String = pieces.collect();
    let token = |token: &str| if token.contains('*') { "*".to_owned() } else { token.to_owned() };
    whole.split('.').map(token).collect::<Vec<_>>().join(".")
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
        let filter = |text: &str| parse(text).map(|template| filter(&template));
        assert_eq!(filter("logs").unwrap(), "logs");
        assert_eq!(filter("logs.{listener}.x-{host}.{lane}").unwrap(), "logs.*.*.*");
        assert_eq!(filter("logs.{date:%Y.%m}.{app}").unwrap(), "logs.*.*.*");
        for (text, says) in [
            ("logs.{hosts}", "{listener}, {stream}, {lane}, {facility}, {severity}, {host}, {app}, {date}"),
            ("logs.{host", "not closed"),
            ("logs.*", "no * or >"),
            ("logs}", "no { for this }"),
            ("logs..x", "empty part"),
            ("logs.{date:%Y..%m}", "empty part"),
            ("logs.{date:%Y/%m}", "slash"),
            ("", "no subject"),
            ("logs/x", "slash"),
            ("$JS.x", "server's own"),
        ] {
            let error = filter(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn the_subject_of_further_names_is_one_of_the_template() {
        for text in ["logs", "logs.{listener}.x-{host}", "{date:%Y.%m.%d}.{app}"] {
            let template = parse(text).unwrap();
            assert!(covers(&filter(&template), template.fallback()), "{text}");
        }
    }

    #[test]
    fn a_field_becomes_one_token() {
        let token = |text: &str| text.chars().map(letter).collect::<String>();
        assert_eq!(token("syslog+udp://0.0.0.0:514 *>\u{7}"), "syslog+udp://0_0_0_0:514____");
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
