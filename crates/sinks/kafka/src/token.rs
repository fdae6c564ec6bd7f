//! The token of SASL's OAUTHBEARER (RFC 7628), from a file that somebody else keeps fresh.
//!
//! librdkafka asks for a token when a client is made, and again when most of its time is over: the file is read each time. A token is usually
//! a JWT, which says until when it holds (`exp`) and for whom (`sub`); bbq does not check it, as the brokers do.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bbq_spec::Secret;
use data_encoding::BASE64URL_NOPAD;
use rdkafka::client::OAuthToken;
use serde::Deserialize;

/// A token that does not say until when it holds is read again after this time.
const LIFETIME_UNKNOWN: Duration = Duration::from_secs(300);
/// The name of who sends, if the token has none. It is for librdkafka alone.
const NAME_UNKNOWN: &str = "bbq";

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct TokenFile(PathBuf);

/// What is read of a JWT (RFC 7519, section 4.1).
#[derive(Default, Deserialize)]
struct Claims {
    /// Seconds since 1970; some have fractions.
    exp: Option<f64>,
    sub: Option<String>,
}

impl TokenFile {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// It cannot be read, or the token in it is over.
    pub(super) fn of(path: &str) -> Result<TokenFile, String> {
        let file = TokenFile(PathBuf::from(path));
        file.read().map(|_| file)
    }

    /// Reads the token.
    ///
    /// # Errors
    /// As of [`TokenFile::of`].
    pub(super) fn read(&self) -> Result<OAuthToken, String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        token(&self.0, Secret::of_file(&self.0)?.expose(), now)
    }
}

fn token(path: &Path, text: &str, now: Duration) -> Result<OAuthToken, String> {
    let claims = claims(text).unwrap_or_default();
    let lifetime = claims.exp.map(|exp| Duration::try_from_secs_f64(exp).unwrap_or_default());
    let lifetime = lifetime.unwrap_or(now + LIFETIME_UNKNOWN);
    if lifetime <= now {
        let seconds = (now - lifetime).as_secs();
        return Err(format!(
            "the token in {} has expired {seconds} s ago; put a new one there",
            path.display()
        ));
    }
    Ok(OAuthToken {
        token: text.to_owned(),
        principal_name: claims.sub.unwrap_or_else(|| NAME_UNKNOWN.to_owned()),
        lifetime_ms: i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX),
    })
}

/// `None` if the token is no JWT.
fn claims(text: &str) -> Option<Claims> {
    let payload = text.split('.').nth(1)?.trim_end_matches('=');
    serde_json::from_slice(&BASE64URL_NOPAD.decode(payload.as_bytes()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<OAuthToken, String> {
        token(Path::new("/run/token"), text, Duration::from_secs(1000))
    }

    #[test]
    fn a_token_says_until_when_it_holds_and_for_whom() {
        let jwt = |claims: &str| format!("e30.{}.", BASE64URL_NOPAD.encode(claims.as_bytes()));
        for (text, name, lifetime_ms) in [
            (jwt(r#"{"exp":1001,"sub":"me"}"#), "me", 1_001_000),
            (jwt(r#"{"exp":1000.5}"#), "bbq", 1_000_500),
            (jwt(r#"{"sub":"me"}"#), "me", 1_300_000),
            (jwt("[]"), "bbq", 1_300_000),
            ("opaque".to_owned(), "bbq", 1_300_000),
            ("a.b.c".to_owned(), "bbq", 1_300_000),
        ] {
            let token = read(&text).unwrap();
            assert_eq!((token.principal_name.as_str(), token.lifetime_ms), (name, lifetime_ms), "{text}");
        }
        for expired in ["990", "-1", "1e300"] {
            let error = read(&jwt(&format!(r#"{{"exp":{expired}}}"#)));
            let error = error.map(|token| token.token).unwrap_err();
            assert!(
                error.contains("/run/token has expired") && error.contains("put a new one there"),
                "{error}"
            );
        }
    }
}
