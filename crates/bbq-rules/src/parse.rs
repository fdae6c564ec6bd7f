//! What `parse` finds in a message: JSON, logfmt, or the groups of a pattern. The message stays what it was.
//!
//! A message that is not what was expected has no fields.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use regex::bytes::{Captures, Regex, RegexBuilder};
use serde_json::{Map, Value as Json};

use bbq_spec::hint;

/// Longer records of OpenTelemetry and longer texts are not decoded: a decoded one takes up to 36 times its size in memory.
pub(crate) const DECODED_BYTES_MAX: usize = 256 * 1024;
/// Memory of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Memory of what was learnt of it, for each thread.
const PATTERN_CACHE_BYTES_MAX: usize = 1 << 20;
/// Fields of a message in logfmt: nobody writes more by hand or by program.
const PAIRS_MAX: usize = 256;

/// Fields of a message that formats show, and the bytes of their JSON: no more than the longest message of most listeners.
const SHOWN_FIELDS_MAX: usize = 256;
const SHOWN_BYTES_MAX: usize = 64 * 1024;

/// What messages are expected to be.
#[derive(Clone, Debug)]
pub(crate) enum Parse {
    Json,
    Logfmt,
    /// Syslog, whatever protocol brought it.
    Syslog,
    /// The named groups of a pattern.
    Pattern(Regex),
}

impl Parse {
    /// Reads the option.
    ///
    /// # Errors
    /// What is allowed.
    pub(crate) fn of(text: &str) -> Result<Parse, String> {
        match text {
            "json" => return Ok(Parse::Json),
            "logfmt" => return Ok(Parse::Logfmt),
            "syslog" => return Ok(Parse::Syslog),
            _ => {}
        }
        let pattern = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) else {
            let meant = hint(text, &["json", "logfmt", "syslog"]);
            return Err(format!("{text:?} is not one of json, logfmt, syslog or /PATTERN/{meant}"));
        };
        let compiled = RegexBuilder::new(pattern)
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_CACHE_BYTES_MAX)
            .build()
            .map_err(|error| format!("{pattern:?} is not a pattern: {error}"))?;
        if compiled.capture_names().flatten().next().is_none() {
            return Err(format!("{pattern:?} has no named group; write for example (?<status>[0-9]+)"));
        }
        Ok(Parse::Pattern(compiled))
    }

    /// Whether it fills the table `parsed`.
    pub(crate) fn has_fields(&self) -> bool {
        !matches!(self, Parse::Syslog)
    }
}

/// What was found in a message.
#[derive(Debug)]
pub(crate) enum Parsed<'m> {
    Nothing,
    Json(Map<String, Json>),
    Pairs(Vec<(&'m str, Cow<'m, [u8]>)>),
    /// The groups of a pattern, and the pattern.
    Groups(Captures<'m>, &'m Regex),
}

/// An object of JSON with a bound.
struct Shown<'o> {
    from: usize,
    fields: usize,
    omitted: u64,
    out: &'o mut Vec<u8>,
}

impl Shown<'_> {
    fn add_text(&mut self, key: &str, text: &[u8]) {
        self.add(key, |out| put_quoted(&String::from_utf8_lossy(text), out));
    }

    fn add(&mut self, key: &str, put_value: impl FnOnce(&mut Vec<u8>)) {
        let Shown { from, fields, omitted, out } = self;
        if *fields >= SHOWN_FIELDS_MAX {
            *omitted += 1;
            return;
        }
        let before = out.len();
        out.push(if *fields == 0 { b'{' } else { b',' });
        put_quoted(key, out);
        out.push(b':');
        put_value(out);
        if out.len() - *from > SHOWN_BYTES_MAX {
            out.truncate(before);
            *omitted += 1;
        } else {
            *fields += 1;
        }
    }

    fn end(self) -> Option<u64> {
        let Shown { fields, omitted, out, .. } = self;
        if fields == 0 {
            if omitted == 0 {
                return None;
            }
            out.push(b'{');
        }
        out.push(b'}');
        Some(omitted)
    }
}

/// Appends a text as JSON has it.
fn put_quoted(text: &str, out: &mut Vec<u8>) {
    // Texts always serialize, and a Vec takes every byte.
    let _infallible = serde_json::to_writer(out, text);
}

impl Found<'_> {
    /// Appends the field as a text, unless it is a table, a list or nothing.
    pub(crate) fn put_text(self, out: &mut String) {
        match self {
            Found::Text(text) => out.push_str(&String::from_utf8_lossy(text)),
            Found::Json(Json::String(text)) => out.push_str(text),
            Found::Json(value @ (Json::Bool(_) | Json::Number(_))) => {
                // Writing to a String cannot fail.
                let _infallible = write!(out, "{value}");
            }
            Found::Json(Json::Null | Json::Array(_) | Json::Object(_)) => {}
        }
    }
}

/// A field that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'a> {
    Json(&'a Json),
    Text(&'a [u8]),
}

impl<'m> Parsed<'m> {
    pub(crate) fn of(parse: &'m Parse, text: &'m [u8]) -> Parsed<'m> {
        if text.len() > DECODED_BYTES_MAX {
            return Parsed::Nothing;
        }
        match parse {
            Parse::Json => match serde_json::from_slice(text) {
                Ok(Json::Object(map)) => Parsed::Json(map),
                _ => Parsed::Nothing,
            },
            Parse::Logfmt => Parsed::Pairs(pairs(text)),
            Parse::Pattern(pattern) => match pattern.captures(text) {
                Some(groups) => Parsed::Groups(groups, pattern),
                None => Parsed::Nothing,
            },
            Parse::Syslog => Parsed::Nothing,
        }
    }

    /// What is found by the name of a field. Of two with the same name the first counts, but in JSON the last.
    pub(crate) fn get<'a>(&'a self, key: &str) -> Option<Found<'a>> {
        match self {
            Parsed::Nothing => None,
            Parsed::Json(map) => map.get(key).map(Found::Json),
            Parsed::Pairs(pairs) => {
                pairs.iter().find(|(known, _)| *known == key).map(|(_, value)| Found::Text(value))
            }
            Parsed::Groups(groups, _) => groups.name(key).map(|group| Found::Text(group.as_bytes())),
        }
    }

    /// What is found by the name of a field, or by a path of names with dots: `http.status` is also the field `status` of `http`.
    pub(crate) fn by_path<'a>(&'a self, path: &str) -> Option<Found<'a>> {
        self.get(path).or_else(|| {
            let Parsed::Json(map) = self else { return None };
            let (mut table, mut found) = (Some(map), None);
            for name in path.split('.') {
                found = Some(table?.get(name)?);
                table = found.and_then(Json::as_object);
            }
            found.map(Found::Json)
        })
    }

    /// Appends the fields as an object of JSON. Returns how many are left out beyond the bounds; `None` if there are none.
    pub(crate) fn put_json(&self, out: &mut Vec<u8>) -> Option<u64> {
        let from = out.len();
        let mut shown = Shown { from, fields: 0, omitted: 0, out };
        match self {
            Parsed::Nothing => {}
            Parsed::Json(map) => map.iter().for_each(|(key, value)| {
                // Values of JSON always serialize, and a Vec takes every byte.
                shown.add(key, |out| drop(serde_json::to_writer(out, value)));
            }),
            Parsed::Pairs(pairs) => {
                let mut known = HashSet::new();
                for (key, value) in pairs.iter().filter(|(key, _)| known.insert(*key)) {
                    shown.add_text(key, value);
                }
            }
            Parsed::Groups(groups, names) => {
                let named = names.capture_names().flatten();
                for (name, group) in named.filter_map(|name| Some((name, groups.name(name)?))) {
                    shown.add_text(name, group.as_bytes());
                }
            }
        }
        shown.end()
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Parsed::Nothing => 0,
            Parsed::Json(map) => map.len(),
            Parsed::Pairs(pairs) => pairs.len(),
            // The first is the whole match.
            Parsed::Groups(groups, _) => groups.iter().skip(1).flatten().count(),
        }
    }
}

/// `key=value key="a \"value\"" key`: as github.com/kr/logfmt reads it. A key without a value has an empty one.
fn pairs(text: &[u8]) -> Vec<(&str, Cow<'_, [u8]>)> {
    let mut found = Vec::new();
    let mut rest = text;
    while found.len() < PAIRS_MAX {
        let Some(start) = rest.iter().position(|byte| is_of_key(*byte)) else { break };
        rest = &rest[start..];
        let end = rest.iter().position(|byte| !is_of_key(*byte)).unwrap_or(rest.len());
        let (key, behind) = rest.split_at(end);
        let (value, behind) = match behind.strip_prefix(b"=") {
            Some(behind) => value(behind),
            None => (Cow::Borrowed(&b""[..]), behind),
        };
        if let Ok(key) = std::str::from_utf8(key) {
            found.push((key, value));
        }
        rest = behind;
    }
    found
}

fn is_of_key(byte: u8) -> bool {
    byte > b' ' && byte != b'=' && byte != b'"'
}

/// The value at the front of a text, and what stands behind it.
fn value(text: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|byte| *byte <= b' ').unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return (Cow::Borrowed(value), rest);
    };
    let mut end = 0;
    let mut has_escapes = false;
    while let Some(byte) = quoted.get(end).filter(|byte| **byte != b'"') {
        has_escapes |= *byte == b'\\';
        end += if *byte == b'\\' { 2 } else { 1 };
    }
    let end = end.min(quoted.len());
    let (value, rest) = quoted.split_at(end);
    let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
    if !has_escapes {
        return (Cow::Borrowed(value), rest);
    }
    // The escapes are those of JSON; what is not valid stays as it is.
    let in_quotes = [b"\"", value, b"\""].concat();
    let unescaped = serde_json::from_slice::<String>(&in_quotes).map(String::into_bytes);
    (Cow::Owned(unescaped.unwrap_or_else(|_| value.to_vec())), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(parse: &str, text: &str, key: &str) -> Option<String> {
        let parse = Parse::of(parse).unwrap();
        let parsed = Parsed::of(&parse, text.as_bytes());
        let value = parsed.get(key)?;
        Some(match value {
            Found::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
            Found::Json(Json::String(text)) => text.clone(),
            Found::Json(other) => other.to_string(),
        })
    }

    #[test]
    fn fields_are_found() {
        let text = |text: &str| Some(text.to_owned());
        let line = r#"level=info msg="a \"b\" \u00e9" took=5ms debug empty= last="open"#;
        for (key, value) in [
            ("level", "info"),
            ("msg", "a \"b\" \u{e9}"),
            ("took", "5ms"),
            ("debug", ""),
            ("empty", ""),
            ("last", "open"),
        ] {
            assert_eq!(found("logfmt", line, key), text(value), "{key}");
        }
        assert_eq!(found("logfmt", line, "nothing"), None);
        let pattern = r"/^(?<who>\S+) .* (?<status>\d{3})( (?<rest>.*))?$/";
        assert_eq!(found(pattern, "me GET / 200", "status"), text("200"));
        assert_eq!(found(pattern, "me GET / 200", "rest"), None);
        assert_eq!(found(pattern, "another line", "status"), None);
        let json = r#"{"status": 500, "level": "warn", "big": 18446744073709551615, "in": {"a": [1]}}"#;
        assert_eq!(found("json", json, "status"), text("500"));
        assert_eq!(found("json", json, "big"), text("18446744073709551615"));
        assert_eq!(found("json", json, "level"), text("warn"));
        for no_object in ["", "[1]", "{", "text", "{\"level\": 1} x"] {
            assert_eq!(found("json", no_object, "level"), None, "{no_object}");
        }
    }

    #[test]
    fn a_text_over_the_limit_is_not_decoded() {
        let long = format!("{{\"level\": \"{}\"}}", "x".repeat(DECODED_BYTES_MAX));
        assert_eq!(found("json", &long, "level"), None);
        assert_eq!(found("logfmt", &"a ".repeat(1000), "a"), Some(String::new()));
        assert_eq!(pairs("a=1 ".repeat(PAIRS_MAX + 1).as_bytes()).len(), PAIRS_MAX);
    }

    #[test]
    fn a_mistake_says_what_is_allowed() {
        for (text, says) in [
            ("jsn", "did you mean \"json\""),
            ("", "json, logfmt, syslog or /PATTERN/"),
            ("//", "json, logfmt, syslog or /PATTERN/"),
            ("/(/", "is not a pattern"),
            ("/a(b)/", "has no named group"),
            ("/(?<a>\\w{1000}){1000}/", "size limit"),
        ] {
            assert!(Parse::of(text).unwrap_err().contains(says), "{text}");
        }
    }

    #[test]
    fn no_text_makes_logfmt_panic() {
        let text = br#"a="b\" c=\ "="" =x "#;
        for from in 0..text.len() {
            for to in from..=text.len() {
                let _found = pairs(&text[from..to]);
            }
        }
    }
}
