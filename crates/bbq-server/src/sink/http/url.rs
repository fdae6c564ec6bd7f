//! Reads the URL of a SPEC.

use std::io;

use data_encoding::HEXLOWER;
use hyper::Uri;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use ring::digest::{Context, SHA256};

use crate::config::ConfigError;
use crate::config::spec_text::without_user;
use crate::sink::delivery::{Part, Range};

/// What a query cannot have as it is. What people have encoded already stays.
const ENCODED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'`').add(b'{').add(b'}');

/// Encodes blanks and other characters of a query that a URL cannot have.
pub(in crate::sink) fn encoded(query: &str) -> String {
    utf8_percent_encode(query, ENCODED).to_string()
}

/// Whether the query of a URL has a value for this key.
pub(in crate::sink) fn has_key(url: &Uri, key: &str) -> bool {
    let query = url.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).any(|(known, _)| known == key)
}

/// The URL of a request, by which ClickHouse knows that it comes again: a digest of which messages it has.
pub(in crate::sink) fn with_token(url: &Uri, part: &Part) -> io::Result<Uri> {
    let mut digest = Context::new(&SHA256);
    for Range { stream, first_sequence, records } in &part.ranges {
        digest.update(&stream.0);
        digest.update(&first_sequence.to_le_bytes());
        digest.update(&records.to_le_bytes());
    }
    let token = HEXLOWER.encode(digest.finish().as_ref());
    format!("{url}&insert_deduplication_token={token}").parse().map_err(io::Error::other)
}

/// A SPEC, for errors.
pub(in crate::sink) struct Written {
    /// Without a user.
    shown: String,
    /// What to write instead.
    form: String,
}

impl Written {
    /// `word` is the kind of the sink, `form` is what to write behind it.
    pub(in crate::sink) fn new(word: &str, argument: &str, form: &str) -> Written {
        Written { shown: without_user(&format!("{word}:{argument}")), form: format!("{word}:{form}") }
    }

    /// The SPEC without a user.
    pub(in crate::sink) fn shown(&self) -> &str {
        &self.shown
    }

    pub(in crate::sink) fn wrong(&self, why: &str) -> ConfigError {
        ConfigError::new(format!("{:?}: {why}; write {}", self.shown, self.form))
    }

    /// Reads a URL whose part behind the scheme is `argument`, with `behind` a question mark.
    pub(in crate::sink) fn url(
        &self,
        scheme: &str,
        argument: &str,
        behind: Option<&str>,
    ) -> Result<Uri, ConfigError> {
        if !argument.strip_prefix("//").is_some_and(|rest| rest.starts_with(|first| first != '/')) {
            return Err(self.wrong("no host"));
        }
        let url = format!("{scheme}:{argument}");
        let full = behind.map_or_else(|| url.clone(), |behind| format!("{url}?{behind}"));
        let uri: Uri =
            full.parse().map_err(|error: hyper::http::uri::InvalidUri| self.wrong(&error.to_string()))?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(self.wrong("the URL must not have a user and a password, use authorization_file"));
        }
        if uri.host().map(str::len) != uri.authority().map(|authority| authority.as_str().len())
            && uri.port_u16().is_none_or(|port| port == 0)
        {
            return Err(self.wrong("the port is not a number from 1 to 65535"));
        }
        Ok(uri)
    }
}
