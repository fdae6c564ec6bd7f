//! A name with fields in braces.
//!
//! ```text
//! logs.{listener}.{host}      a text and fields
//! logs-{date:%Y.%m.%d}        a date with a form; its texts are as those beside the braces
//! logs.{parsed.team}          a field that `parse` has found
//! logs.{fields.namespace}     a field that the reader of the message knows
//! ```

use chrono::DateTime;

use super::date::{self, FormPiece, Number};
use super::{Field, NameRules};
use crate::reader_fields::whole_name;

/// In place of each field in the name of messages beyond the bound of names.
pub const OTHER: &str = "other";
/// A longer field is cut: names are for people, and destinations index them.
const FIELD_BYTES_MAX: usize = 128;
/// With less room for a field, different hosts would be cut to the same name.
const FIELD_BYTES_MIN: usize = 16;
/// Of the name of a field that `parse` finds or a reader knows: nobody writes a longer one.
const FIELD_NAME_BYTES_MAX: usize = 256;
/// What stands before the name of a field that `parse` finds.
const PARSED: &str = "parsed.";
/// What stands before the name of a field that a reader knows.
const OF_READER: &str = "fields.";

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(Field),
    /// The field that `parse` finds with the name in this place.
    Parsed(usize),
    /// The same of a reader.
    OfReader(usize),
    Number(Number),
}

/// A piece of a template, for checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A text that every name has.
    Text(&'a str),
    /// A field, or a number of a date. It has at least one letter, and none that separates parts of a name.
    Any,
}

/// A name with fields; see the module.
#[derive(Clone, Debug)]
pub struct NameTemplate {
    text: String,
    parts: Vec<Part>,
    named: NamedFields,
    pub(super) rules: &'static NameRules,
    /// The most bytes of a field.
    field_bytes_max: usize,
    fallback: String,
}

/// The names of fields in a template, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct NamedFields {
    /// Those that `parse` finds.
    pub(super) parsed: Vec<String>,
    /// Those that readers know, by their whole names.
    pub(super) of_reader: Vec<String>,
}

/// What is known of a message when its name is made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts<'a> {
    pub(super) listener: &'a str,
    pub(super) stream: &'a str,
    pub(super) lane: &'a str,
    pub(super) received_ns: u64,
    pub(super) host: Option<&'a str>,
    pub(super) app: Option<&'a str>,
    pub(super) facility: Option<&'a str>,
    pub(super) severity: Option<&'a str>,
    /// The fields that `parse` finds, in the order of their names; empty where the message has none.
    pub(super) parsed: &'a [String],
    /// The same of the fields that readers know.
    pub(super) of_reader: &'a [String],
}

impl Facts<'_> {
    fn get(&self, field: Field) -> &str {
        match field {
            Field::Listener => self.listener,
            Field::Stream => self.stream,
            Field::Lane => self.lane,
            Field::Host => self.host.unwrap_or_default(),
            Field::App => self.app.unwrap_or_default(),
            Field::Facility => self.facility.unwrap_or_default(),
            Field::Severity => self.severity.unwrap_or_default(),
            // A date is numbers, and the others have names.
            Field::Date | Field::Parsed | Field::OfReader => "",
        }
    }
}

impl NameTemplate {
    /// Reads a template. Its texts are not checked, but for braces; see [`NameTemplate::fallback`].
    ///
    /// # Errors
    /// Says what is wrong, where, and what is allowed.
    pub fn parse(text: &str, rules: &'static NameRules) -> Result<NameTemplate, String> {
        let wrong = |at: usize, why: &str| {
            let place = text[..at].chars().count() + 1;
            format!("{text:?}, character {place}: {why}")
        };
        let (mut parts, mut named) = (Vec::new(), NamedFields::default());
        let mut at = 0;
        while let Some(brace) = text[at..].find(['{', '}']).map(|offset| at + offset) {
            if text[brace..].starts_with('}') {
                return Err(wrong(brace, "there is no { for this }"));
            }
            put_text(&mut parts, &text[at..brace]);
            let inner = &text[brace + 1..];
            let length = inner.find(['{', '}']).filter(|end| inner[*end..].starts_with('}'));
            let inner = &inner[..length.ok_or_else(|| wrong(brace, "the brace is not closed by }"))?];
            match read_named(inner, rules, &mut named) {
                Some(part) => parts.push(part.map_err(|why| wrong(brace, &why))?),
                None => read_field(inner, rules, &mut parts)
                    .map_err(|(offset, why)| wrong(brace + offset, &why))?,
            }
            at = brace + inner.len() + 2;
        }
        put_text(&mut parts, &text[at..]);
        NameTemplate::of_parts(text, (parts, named), rules)
    }

    fn of_parts(
        text: &str,
        (parts, named): (Vec<Part>, NamedFields),
        rules: &'static NameRules,
    ) -> Result<NameTemplate, String> {
        let NameRules { what, bytes_max, .. } = *rules;
        let is_field = |part: &&Part| !matches!(part, Part::Text(_) | Part::Number(_));
        let fields = parts.iter().filter(is_field).count();
        let bytes = parts.iter().map(|part| match part {
            Part::Text(text) => text.len(),
            Part::Number(number) => number.digits(),
            Part::Field(_) | Part::Parsed(_) | Part::OfReader(_) => 0,
        });
        let bytes: usize = bytes.sum();
        let room = bytes_max.saturating_sub(bytes);
        if bytes > bytes_max || room < fields * FIELD_BYTES_MIN {
            let needs = bytes + fields * FIELD_BYTES_MIN;
            return Err(format!(
                "{text:?}: a {what} has at most {bytes_max} bytes, and this one needs {needs} ({FIELD_BYTES_MIN} for each field); \
                 make it shorter"
            ));
        }
        let field_bytes_max = room.checked_div(fields).unwrap_or(0).min(FIELD_BYTES_MAX);
        let mut template = NameTemplate {
            text: text.to_owned(),
            parts,
            named,
            rules,
            field_bytes_max,
            fallback: String::new(),
        };
        template.fallback = template.named_other();
        Ok(template)
    }

    fn named_other(&self) -> String {
        let mut name = String::new();
        let mut before = Piece::Text("");
        for piece in self.pieces() {
            match piece {
                Piece::Text(text) => name.push_str(text),
                // `%Y%m%d` is one word.
                Piece::Any if before == Piece::Any => {}
                Piece::Any => name.push_str(OTHER),
            }
            before = piece;
        }
        name
    }

    /// The template as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name of messages beyond the bound of names: the template with [`OTHER`] in place of its fields. It has all texts of the template,
    /// so a destination that allows this name allows every name.
    #[must_use]
    pub fn fallback(&self) -> &str {
        &self.fallback
    }

    /// Whether there is more than one name.
    #[must_use]
    pub fn has_fields(&self) -> bool {
        self.pieces().any(|piece| piece == Piece::Any)
    }

    /// The texts, and what stands between them.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        self.parts.iter().map(|part| match part {
            Part::Text(text) => Piece::Text(text),
            Part::Field(_) | Part::Parsed(_) | Part::OfReader(_) | Part::Number(_) => Piece::Any,
        })
    }

    /// Whether a sender can choose how names begin, and so a name that has nothing to do with this sink.
    #[must_use]
    pub fn begins_with_sender(&self) -> bool {
        self.parts.first().and_then(Part::field).is_some_and(Field::is_of_sender)
    }

    /// Whether this may be a name of the template. Some names for which the answer is yes are none.
    #[must_use]
    pub fn may_be(&self, name: &str) -> bool {
        let mut rest = name;
        let mut is_open = false;
        for piece in self.pieces() {
            let Piece::Text(text) = piece else {
                is_open = true;
                continue;
            };
            let at = if is_open { rest.find(text) } else { rest.starts_with(text).then_some(0) };
            let Some(at) = at else { return false };
            rest = &rest[at + text.len()..];
            is_open = false;
        }
        // The last text was looked for at the first place where it may be.
        let ends = || matches!(self.parts.last(), Some(Part::Text(last)) if name.ends_with(last.as_str()));
        is_open || rest.is_empty() || (self.parts.len() > 1 && ends())
    }

    /// Whether messages of a batch may have different names.
    #[must_use]
    pub fn is_per_message(&self) -> bool {
        self.fields().any(Field::is_per_message)
    }

    /// Whether the headers of messages have to be read, and not their priority alone.
    pub(super) fn is_of_header(&self) -> bool {
        self.fields().any(Field::is_of_header)
    }

    fn fields(&self) -> impl Iterator<Item = Field> {
        self.parts.iter().filter_map(Part::field)
    }

    /// Whether it has fields that `parse` has to find.
    #[must_use]
    pub fn names_parsed(&self) -> bool {
        !self.named.parsed.is_empty()
    }

    /// The names of fields that have names.
    pub(super) fn named(&self) -> &NamedFields {
        &self.named
    }

    /// Appends the name of a message.
    pub(super) fn put(&self, facts: &Facts<'_>, name: &mut String) {
        let nanos = i64::try_from(facts.received_ns).unwrap_or(i64::MAX);
        let time = DateTime::from_timestamp_nanos(nanos);
        for part in &self.parts {
            match part {
                Part::Text(text) => name.push_str(text),
                Part::Field(field) => self.put_field(facts.get(*field), name),
                Part::Parsed(place) => {
                    self.put_field(facts.parsed.get(*place).map_or("", String::as_str), name);
                }
                Part::OfReader(place) => {
                    self.put_field(facts.of_reader.get(*place).map_or("", String::as_str), name);
                }
                Part::Number(number) => number.put(&time, name),
            }
        }
    }

    /// The name of a time: for what has no messages' fields.
    #[must_use]
    pub fn at(&self, received_ns: u64) -> String {
        let mut name = String::new();
        self.put(&Facts { received_ns, ..Facts::default() }, &mut name);
        name
    }

    fn put_field(&self, text: &str, name: &mut String) {
        let end = name.len() + self.field_bytes_max;
        if text.is_empty() {
            name.push_str(self.rules.missing);
        }
        let letters = text.chars().map(self.rules.letter);
        for letter in letters {
            if name.len() + letter.len_utf8() > end {
                return;
            }
            name.push(letter);
        }
    }
}

impl Part {
    fn field(&self) -> Option<Field> {
        match self {
            Part::Field(field) => Some(*field),
            Part::Parsed(_) => Some(Field::Parsed),
            Part::OfReader(_) => Some(Field::OfReader),
            Part::Text(_) | Part::Number(_) => None,
        }
    }
}

fn put_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(before)) => before.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

/// Reads a field by its name, if that is what is in the braces and may be there.
fn read_named(inner: &str, rules: &NameRules, named: &mut NamedFields) -> Option<Result<Part, String>> {
    let name_of = |field, prefix| inner.strip_prefix(prefix).filter(|_| rules.fields.contains(&field));
    if let Some(name) = name_of(Field::Parsed, PARSED) {
        let place = place_of(name, &mut named.parsed, "{parsed.level}");
        return Some(place.map(Part::Parsed).map_err(|why| format!("{{{inner}}} {why}")));
    }
    let name = whole_name(name_of(Field::OfReader, OF_READER)?);
    let place = place_of(name, &mut named.of_reader, "{fields.pod}");
    Some(place.map(Part::OfReader).map_err(|why| format!("{{{inner}}} {why}")))
}

/// The place of a name among those that are known; it may be new.
fn place_of(name: &str, known: &mut Vec<String>, example: &str) -> Result<usize, String> {
    if name.is_empty() || name.len() > FIELD_NAME_BYTES_MAX {
        return Err(format!(
            "needs the name of a field, of at most {FIELD_NAME_BYTES_MAX} bytes, such as {example}"
        ));
    }
    let place = known.iter().position(|known| known == name).unwrap_or(known.len());
    if place == known.len() {
        known.push(name.to_owned());
    }
    Ok(place)
}

/// Reads what is in braces. An error has its place behind the opening brace, in bytes.
fn read_field(inner: &str, rules: &NameRules, parts: &mut Vec<Part>) -> Result<(), (usize, String)> {
    let (word, form) = inner.split_once(':').map_or((inner, None), |(word, form)| (word, Some(form)));
    let is_word = |field: &Field| !field.is_named() && field.word() == word;
    let Some(field) = rules.fields.iter().copied().find(is_word) else {
        let names: Vec<String> = rules.fields.iter().map(|field| format!("{{{}}}", field.word())).collect();
        let is_of_others =
            Field::ALL.iter().any(is_word) || word.starts_with(PARSED) || word.starts_with(OF_READER);
        let why = if is_of_others { "cannot be in" } else { "is not a field for" };
        let known = names.join(", ");
        return Err((0, format!("{{{inner}}} {why} a {}; allowed: {known}", rules.what)));
    };
    if field != Field::Date {
        parts.push(Part::Field(field));
        return match form {
            None => Ok(()),
            Some(_) => Err((word.len() + 1, format!("{{{word}}} has no form; only {{date:...}} has one"))),
        };
    }
    let begin = word.len() + 2;
    let pieces =
        date::read_form(form.unwrap_or(date::FORM_DEFAULT)).map_err(|(at, why)| (begin + at, why))?;
    for piece in pieces {
        match piece {
            FormPiece::Text(text) => put_text(parts, text),
            FormPiece::Number(number) => parts.push(Part::Number(number)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    static RULES: NameRules = NameRules {
        what: "topic",
        fields: &[Field::Listener, Field::Host, Field::Lane, Field::Date, Field::Parsed],
        missing: "none",
        letter: |letter| if letter.is_ascii_alphanumeric() { letter } else { '-' },
        bytes_max: 100,
        names_max: None,
    };

    fn parse(text: &str) -> Result<NameTemplate, String> {
        NameTemplate::parse(text, &RULES)
    }

    fn name(text: &str, host: Option<&str>) -> String {
        let facts = Facts {
            listener: "in",
            lane: "3",
            host,
            received_ns: 1_767_312_000_000_000_000,
            ..Facts::default()
        };
        let mut name = String::new();
        parse(text).unwrap().put(&facts, &mut name);
        name
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, says) in [
            (
                "logs.{hosts}",
                "\"logs.{hosts}\", character 6: {hosts} is not a field for a topic; allowed: {listener}, {host}, {lane}, {date}, {parsed.NAME}",
            ),
            ("{app}", "character 1: {app} cannot be in a topic; allowed: {listener}"),
            ("é{host", "character 2: the brace is not closed by }"),
            ("{host{lane}}", "character 1: the brace is not closed by }"),
            ("a}", "character 2: there is no { for this }"),
            ("{}", "character 1: {} is not a field for"),
            ("{host:x}", "character 6: {host} has no form"),
            ("a{date:%Y%M}", "character 10: %M is not one of %Y, %m, %d, %H"),
            ("{parsed}", "character 1: {parsed} is not a field for"),
            ("{fields.pod}", "character 1: {fields.pod} cannot be in a topic; allowed: {listener}"),
            ("a{parsed.}", "character 2: {parsed.} needs the name of a field, of at most 256 bytes"),
            (&format!("{{parsed.{}}}", "x".repeat(257)), "at most 256 bytes"),
            ("{date:}", "character 7: the date has no part such as %Y"),
            ("{date:day}", "character 7: the date has no part"),
            (&"x".repeat(101), "at most 100 bytes, and this one needs 101"),
            (&format!("{}{{host}}", "x".repeat(85)), "needs 101 (16 for each field)"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_name_has_the_fields_of_its_message() {
        for (text, expected) in [
            ("logs", "logs"),
            ("logs.{listener}.{host}-{lane}", "logs.in.web-1-example-3"),
            ("{date}", "2026-01-02"),
            ("x{date:%Y/%m/%d}y", "x2026/01/02y"),
            ("{date:%Gw%V.%H}", "2026w01.00"),
        ] {
            assert_eq!(name(text, Some("web.1/example")), expected);
        }
        assert_eq!(name("logs.{host}", None), "logs.none");
        assert_eq!(name("logs.{host}", Some("")), "logs.none");
    }

    #[test]
    fn a_field_is_cut_so_that_the_name_fits() {
        let long = "é".repeat(200);
        assert_eq!(name("{host}", Some(&long)).len(), 100);
        let text = format!("{}{{host}}{{host}}", "x".repeat(60));
        assert_eq!(name(&text, Some(&long)), format!("{}{}", "x".repeat(60), "-".repeat(40)));
    }

    #[test]
    fn the_fallback_has_all_texts() {
        for (text, expected) in [
            ("logs", "logs"),
            ("logs.{host}.{lane}", "logs.other.other"),
            ("logs.{parsed.a.b}", "logs.other"),
            ("logs-{date:%Y.%m.%d}", "logs-other.other.other"),
            ("logs-{date:%Y%m%d}x", "logs-otherx"),
        ] {
            assert_eq!(parse(text).unwrap().fallback(), expected);
        }
    }

    #[test]
    fn names_of_a_template_are_recognized() {
        for (text, name) in [
            ("logs", "logs"),
            ("logs-{host}", "logs-a-b"),
            ("{host}-x", "a-x-x"),
            ("a{host}b{lane}c", "a1b2b3c"),
        ] {
            assert!(parse(text).unwrap().may_be(name), "{text} {name}");
        }
        for (text, name) in
            [("logs", "logs-x"), ("logs-{host}", "log-a"), ("{host}-x", "a-y"), ("a{host}b{lane}c", "a1c")]
        {
            assert!(!parse(text).unwrap().may_be(name), "{text} {name}");
        }
    }

    #[test]
    fn it_is_known_who_chooses_the_beginning() {
        for (text, is_of_sender) in [
            ("{host}x", true),
            ("x{host}", false),
            ("{parsed.a}", true),
            ("{listener}", true),
            ("{date}", false),
        ] {
            assert_eq!(parse(text).unwrap().begins_with_sender(), is_of_sender, "{text}");
        }
        assert!(
            parse("{host}").unwrap().is_per_message()
                && parse("{parsed.a:b}").unwrap().is_per_message()
                && !parse("{listener}{date}").unwrap().is_per_message()
        );
    }
}
