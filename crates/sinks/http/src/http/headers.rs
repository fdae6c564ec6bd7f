//! The headers that a SPEC adds to each request: `Authorization`, and others from a file or an environment variable.
//!
//! ```text
//! Name: value             a header on each line; or, as OTEL_EXPORTER_OTLP_HEADERS has them:
//! name=value,name=value   values are percent-encoded
//! # a comment             a line that is left out
//! ```
//!
//! Keys of an account come in such headers, so all their values are secrets. Some servers repeat them: in the shown text of a response they
//! are hidden as they were sent, and as JSON escapes them, unless they are very short.

use std::str::FromStr as _;

use bbq_spec::{ConfigError, Query, SECRET_SHOWN, Secret, SpecOption, Values};
use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST,
    HeaderMap, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use percent_encoding::percent_decode_str;

use super::url::Written;

const AUTHORIZED: SpecOption = SpecOption {
    key: "authorization",
    values: Values::Secret,
    default: "none",
    meaning: "the header `Authorization`, such as `Bearer TOKEN`",
};
const MORE: SpecOption = SpecOption {
    key: "headers",
    values: Values::Secret,
    default: "none",
    meaning: "other headers: `Name: value` on each line, or `name=value,name=value` as in OTEL_EXPORTER_OTLP_HEADERS",
};
/// What [`Headers::take`] takes.
pub const OPTIONS: [SpecOption; 2] = [AUTHORIZED, MORE];

/// What the sink says itself, or the connection.
const RESERVED: [HeaderName; 11] = [
    // Responses are read as they come.
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    EXPECT,
    HOST,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// Names of gRPC's own.
const RESERVED_PREFIX: &str = "grpc-";
const FORM: &str = "write Name: value on each line, or name=value,name=value";
/// Some editors begin a file with it.
const BYTE_ORDER_MARK: char = '\u{feff}';
/// A shorter value, or word after a scheme (`Bearer WORD`), is not hidden: many texts contain it by chance.
const HIDDEN_BYTES_MIN: usize = 4;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    map: HeaderMap,
    /// What is hidden in texts of the server.
    secrets: Vec<Secret>,
}

impl Headers {
    /// Takes the options.
    ///
    /// # Errors
    /// A secret cannot be read, or has something that is no header or not to be added. The error shows no value.
    pub fn take(written: &Written, query: &mut Query<'_>) -> Result<Headers, ConfigError> {
        let wrong = |why: String| ConfigError::new(format!("{:?}: {why}", written.shown()));
        let mut headers = Headers::default();
        if let Some(secret) = query.take_secret(AUTHORIZED.key)? {
            headers.add(AUTHORIZATION, secret).map_err(|why| wrong(format!("authorization {why}")))?;
        }
        if let Some(secret) = query.take_secret(MORE.key)? {
            headers.add_all(secret.expose()).map_err(|why| wrong(format!("headers: {why}")))?;
        }
        Ok(headers)
    }

    fn add(&mut self, name: HeaderName, secret: Secret) -> Result<(), String> {
        let mut value = HeaderValue::from_str(secret.expose())
            .map_err(|_| "has a control character, which a header cannot have; leave it out".to_owned())?;
        value.set_sensitive(true);
        if self.map.insert(name, value).is_some() {
            return Err("is given twice; leave one out".to_owned());
        }
        self.secrets.push(secret);
        Ok(())
    }

    fn add_all(&mut self, text: &str) -> Result<(), String> {
        let text = text.trim_start_matches(BYTE_ORDER_MARK);
        let lines = || {
            text.lines()
                .enumerate()
                .filter(|(_, line)| !matches!(line.trim().bytes().next(), None | Some(b'#')))
        };
        // No name contains either.
        let is_list = lines()
            .next()
            .and_then(|(_, line)| line.find([':', '=']).map(|at| &line[at..]))
            .is_some_and(|rest| rest.starts_with('='));
        for (index, line) in lines() {
            let items = line.split(|letter| is_list && letter == ',');
            for item in items.filter(|item| !item.trim().is_empty()) {
                self.add_item(item, is_list).map_err(|why| format!("line {}: {why}", index + 1))?;
            }
        }
        if self.map.is_empty() { Err(format!("there is no header; {FORM}")) } else { Ok(()) }
    }

    /// Adds `name=value` of a list, or else `Name: value`.
    fn add_item(&mut self, item: &str, is_of_list: bool) -> Result<(), String> {
        let separator = if is_of_list { '=' } else { ':' };
        let (name, value) =
            item.split_once(separator).ok_or_else(|| format!("it is not a header; {FORM}"))?;
        let name = HeaderName::from_str(name.trim())
            .map_err(|_| format!("it has a name that a header cannot have; {FORM}"))?;
        if RESERVED.contains(&name) || name.as_str().starts_with(RESERVED_PREFIX) {
            return Err(format!("{name} must not be set: the sink sets it itself; leave it out"));
        }
        let value = match is_of_list {
            true => percent_decode_str(value.trim())
                .decode_utf8()
                .map_err(|_| format!("{name} is not UTF-8; percent-encode its value as UTF-8"))?,
            false => value.trim().into(),
        };
        let secret = Secret::of_text(&value).map_err(|why| format!("{name} {why}; {FORM}"))?;
        self.add(name.clone(), secret).map_err(|why| format!("{name} {why}"))
    }

    /// Adds them to those of a request.
    pub fn add_to(&self, request: &mut HeaderMap) {
        request.extend(self.map.clone());
    }

    /// A text of the server without the values that it may repeat, and without the words after their schemes.
    pub(crate) fn hide_in(&self, text: &str) -> String {
        let mut hidden: Vec<String> = self
            .secrets
            .iter()
            .flat_map(|secret| {
                let whole = secret.expose().trim();
                let word = whole.split_once(' ').map_or("", |(_, word)| word.trim());
                [whole.to_owned(), word.to_owned(), escaped(whole), escaped(word)]
            })
            .filter(|part| part.len() >= HIDDEN_BYTES_MIN)
            .collect();
        // One may be a part of another, of which the rest would be seen.
        hidden.sort_by_key(|part| std::cmp::Reverse(part.len()));
        hidden.into_iter().fold(text.to_owned(), |text, part| text.replace(&part, SECRET_SHOWN))
    }
}

/// As JSON has it in a text.
fn escaped(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(&json).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_text(text: &str) -> Result<Headers, String> {
        let mut headers = Headers::default();
        headers.add_all(text).map(|()| headers)
    }

    #[test]
    fn headers_are_read_in_both_forms() {
        for text in [
            "X-Key: sesame=1, 2\n\nX-Scope-OrgID:tenant\n",
            "x-key = sesame%3D1%2C%202,,x-scope-orgid=tenant,",
        ] {
            let headers = of_text(text).unwrap();
            let mut map = HeaderMap::new();
            headers.add_to(&mut map);
            assert_eq!(map.len(), 2);
            assert_eq!(
                (&map["X-Key"], &map["x-scope-orgid"]),
                (&"sesame=1, 2".parse().unwrap(), &"tenant".parse().unwrap())
            );
            assert_eq!(headers.hide_in("no sesame=1, 2 here"), "no <secret> here");
            assert!(!format!("{headers:?}").contains("sesame"));
            assert_eq!(headers.hide_in("a tenant: 2"), "a <secret>: 2");
        }
    }

    #[test]
    fn a_value_that_contains_another_is_hidden_whole() {
        let headers = of_text("a: sesame\nb: open sesame twice").unwrap();
        assert_eq!(
            headers.hide_in("open sesame twice, sesame twice, sesame"),
            "<secret>, <secret>, <secret>"
        );
    }

    #[test]
    fn what_cannot_be_added_is_named_and_not_shown() {
        for (text, words) in [
            ("sesame", "line 1: it is not a header; write Name: value"),
            ("# a=1\n", "there is no header; write Name: value"),
            ("a: sesame\nsesame", "line 2: it is not a header"),
            ("a b: sesame", "line 1: it has a name"),
            ("Accept-Encoding: gzip", "accept-encoding must not be set"),
            ("a: sesame\nA: sesame", "a is given twice"),
            ("Content-Type: sesame", "content-type must not be set"),
            ("grpc-timeout=sesame", "grpc-timeout must not be set"),
            ("a:", "a is empty"),
            ("a=sesame%00", "a has a control character"),
            ("a=sesame%ff", "a is not UTF-8"),
        ] {
            let error = of_text(text).unwrap_err();
            assert!(error.contains(words) && !error.contains("sesame"), "{error}");
        }
    }
}
