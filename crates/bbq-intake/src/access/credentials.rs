//! The token of a request, in the schemes in which senders show one.
//!
//! ```text
//! Authorization: Bearer TOKEN                    bbq's own clients, and others
//!                Splunk TOKEN                    the HTTP event collector
//!                Basic BASE64 of NAME:TOKEN      where a sender knows a user and a password; any name
//!                ApiKey TOKEN                    Elasticsearch, or BASE64 of ID:TOKEN
//! ```

use std::borrow::Cow;

use data_encoding::BASE64;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

/// What a request shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Credentials<'a> {
    /// No `Authorization`.
    Missing,
    /// An `Authorization` in none of the schemes.
    Unknown,
    /// A token, and what else the same words may mean.
    Token(Cow<'a, str>, Option<String>),
}

/// The token of the first `Authorization` header.
pub(crate) fn credentials(headers: &HeaderMap) -> Credentials<'_> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Credentials::Missing };
    let Some((scheme, shown)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else {
        return Credentials::Unknown;
    };
    let is = |known: &str| scheme.eq_ignore_ascii_case(known);
    let shown = shown.trim();
    if is("Bearer") || is("Splunk") {
        return Credentials::Token(Cow::Borrowed(shown), None);
    }
    if is("ApiKey") {
        return Credentials::Token(Cow::Borrowed(shown), behind_name(shown));
    }
    match behind_name(shown).filter(|_| is("Basic")) {
        Some(token) => Credentials::Token(Cow::Owned(token), None),
        None => Credentials::Unknown,
    }
}

/// What stands behind the first colon of a text in base64.
fn behind_name(encoded: &str) -> Option<String> {
    let text = String::from_utf8(BASE64.decode(encoded.as_bytes()).ok()?).ok()?;
    text.split_once(':').map(|(_, token)| token.to_owned())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn each_scheme_shows_its_token() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            match credentials(&headers) {
                Credentials::Token(token, other) => Some((token.into_owned(), other)),
                Credentials::Missing | Credentials::Unknown => None,
            }
        };
        let token = |token: &str| Some((token.to_owned(), None));
        assert_eq!(of("bearer  abc "), token("abc"));
        assert_eq!(of("Splunk abc"), token("abc"));
        // elastic:a:b
        assert_eq!(of("Basic ZWxhc3RpYzphOmI="), token("a:b"));
        assert_eq!(of("ApiKey abc"), token("abc"));
        assert_eq!(of("ApiKey aWQ6a2V5"), Some(("aWQ6a2V5".to_owned(), Some("key".to_owned()))));
        for unknown in ["abc", "Basic abc", "Basic YWJj", "Digest abc", ""] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
        assert_eq!(credentials(&HeaderMap::new()), Credentials::Missing);
    }
}
