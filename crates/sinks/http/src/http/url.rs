//! Reads the URL of a SPEC.

use std::io;

use bbq_sink::{Part, Range, SERVERS_MAX};
use bbq_spec::{ConfigError, without_user};
use data_encoding::HEXLOWER;
use hyper::Uri;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use ring::digest::{Context, SHA256};

/// What a query cannot have as it is. What people have encoded already stays.
const ENCODED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'`').add(b'{').add(b'}');

/// Encodes blanks and other characters of a query that a URL cannot have.
pub(crate) fn encoded(query: &str) -> String {
    utf8_percent_encode(query, ENCODED).to_string()
}

/// Whether the query of a URL has a value for this key.
pub(crate) fn has_key(url: &Uri, key: &str) -> bool {
    let query = url.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).any(|(known, _)| known == key)
}

/// The URL of a request, by which ClickHouse knows that it comes again: a digest of which messages it has.
pub(crate) fn with_token(url: &Uri, part: &Part) -> io::Result<Uri> {
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
pub struct Written {
    /// Without a user.
    shown: String,
    /// What to write instead.
    form: String,
}

impl Written {
    /// `word` is the kind of the sink, `form` is what to write behind it.
    pub fn new(word: &str, argument: &str, form: &str) -> Written {
        Written { shown: without_user(&format!("{word}:{argument}")), form: format!("{word}:{form}") }
    }

    /// The SPEC without a user.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// An error that says what to write instead.
    pub fn wrong(&self, why: &str) -> ConfigError {
        ConfigError::new(format!("{:?}: {why}; write {}", self.shown, self.form))
    }

    /// Reads what is behind the scheme, with `behind` a question mark: a URL for each of the receivers.
    pub fn urls(&self, scheme: &str, argument: &str, behind: Option<&str>) -> Result<Vec<Uri>, ConfigError> {
        let rest = argument.strip_prefix("//").ok_or_else(|| self.wrong("no host"))?;
        let is_url = |part: &str| part.split_once("://").is_some_and(|(word, _)| !word.contains('/'));
        if rest.split(',').skip(1).any(is_url) {
            return Err(self.wrong("several hosts must have the same scheme and the same path"));
        }
        let (receivers, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let query = behind.map(|behind| format!("?{behind}")).unwrap_or_default();
        let mut urls = Vec::new();
        for receiver in receivers.split(',') {
            let url = self.url(receiver, &format!("{scheme}://{receiver}{path}{query}"))?;
            if urls.iter().any(|known| place(known) == place(&url)) {
                return Err(self.wrong(&format!("{receiver} is listed twice")));
            }
            urls.push(url);
        }
        if urls.len() > SERVERS_MAX {
            return Err(self.wrong(&format!("there are more than {SERVERS_MAX} hosts")));
        }
        Ok(urls)
    }

    fn url(&self, receiver: &str, url: &str) -> Result<Uri, ConfigError> {
        if receiver.is_empty() {
            return Err(self.wrong("no host"));
        }
        let uri: Uri =
            url.parse().map_err(|error: hyper::http::uri::InvalidUri| self.wrong(&error.to_string()))?;
        if receiver.contains('@') {
            return Err(self.wrong("the URL must not have a user and a password, use authorization_file"));
        }
        if uri.host().map(str::len) != Some(receiver.len()) && uri.port_u16().is_none_or(|port| port == 0) {
            return Err(self.wrong("the port is not a number from 1 to 65535"));
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err(self.wrong("no host"));
        }
        Ok(uri)
    }
}

/// Host and port.
fn place(url: &Uri) -> (String, u16) {
    let port_default = if url.scheme_str() == Some("https") { 443 } else { 80 };
    let host = url.host().unwrap_or_default().to_ascii_lowercase();
    (host, url.port_u16().unwrap_or(port_default))
}
