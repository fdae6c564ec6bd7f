//! The handshake with a shared key, and with users if the listener has any.
//!
//! ```text
//! server   ["HELO", {"nonce": bytes, "auth": bytes or "", "keepalive": true}]
//! client   ["PING", its name, salt, SHA-512 of (salt, its name, nonce, shared key), user, SHA-512 of (auth, user, password)]
//! server   ["PONG", whether it may send, why not, the server's name, SHA-512 of (salt, the server's name, nonce, shared key)]
//! ```
//!
//! Digests are in hexadecimal. Neither key nor password goes over the connection; what follows the handshake is not protected by it.
//!
//! Not here: where keys come from, and random numbers.

use std::fmt::Write as _;

use ring::digest::{Context, SHA512};
use subtle::ConstantTimeEq as _;

use super::error::NotForward;
use super::msgpack::Reader;

/// The name of the server. It must differ from the client's, which is the name of its host.
const SERVER_NAME: &str = "bbq";

/// Bytes of the nonce, and of the salt of passwords.
pub const SALT_BYTES: usize = 16;

/// What a connection got in its HELO. Each has its own.
#[derive(Clone, Copy, Debug)]
pub struct Challenge {
    /// So that an answer cannot be used again.
    pub nonce: [u8; SALT_BYTES],
    /// The salt of passwords; `None` if there are no users.
    pub auth: Option<[u8; SALT_BYTES]>,
}

/// The answer of a client to a HELO.
#[derive(Clone, Copy, Debug)]
pub struct Ping<'a> {
    name: &'a [u8],
    salt: &'a [u8],
    digest: &'a [u8],
    user: &'a [u8],
    password_digest: &'a [u8],
}

/// Why a client may not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// It has another key.
    #[error("the shared key of the client is another one")]
    Key,
    /// It has another password, or there is no such user.
    #[error("the user or the password of the client is not known here")]
    User,
    /// It sends without a handshake.
    #[error("the client has no shared key; set the one of the listener (shared_key_file) at the client")]
    NoHandshake,
}

impl Challenge {
    /// The HELO.
    #[must_use]
    pub fn helo(&self) -> Vec<u8> {
        let mut out = b"\x92\xa4HELO\x83\xa5nonce".to_vec();
        put_bytes(&self.nonce, &mut out);
        out.extend_from_slice(b"\xa4auth");
        match &self.auth {
            Some(auth) => put_bytes(auth, &mut out),
            None => out.push(0xa0),
        }
        out.extend_from_slice(b"\xa9keepalive\xc3");
        out
    }

    /// Checks an answer, and returns the PONG to it. `password` finds the password of a user.
    ///
    /// # Errors
    /// Why the client may not send, and the PONG that says so.
    pub fn check<'k>(
        &self,
        ping: &Ping<'_>,
        shared_key: &str,
        password: impl FnOnce(&str) -> Option<&'k str>,
    ) -> Result<Vec<u8>, (Refused, Vec<u8>)> {
        let key = shared_key.as_bytes();
        if !is_same(&[ping.salt, ping.name, &self.nonce, key], ping.digest) {
            return Err((Refused::Key, pong(Err("shared_key mismatch"))));
        }
        if let Some(auth) = &self.auth {
            let known = std::str::from_utf8(ping.user).ok().and_then(password);
            // It takes as long for a user that does not exist.
            let digest =
                is_same(&[auth, ping.user, known.unwrap_or_default().as_bytes()], ping.password_digest);
            if known.is_none() || !digest {
                return Err((Refused::User, pong(Err("username/password mismatch"))));
            }
        }
        Ok(pong(Ok(&hex(&[ping.salt, SERVER_NAME.as_bytes(), &self.nonce, key]))))
    }
}

impl<'a> Ping<'a> {
    /// Reads what is behind the word PING.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Ping<'a>, NotForward> {
        let mut text = || reader.text("a PING has five texts");
        Ok(Ping { name: text()?, salt: text()?, digest: text()?, user: text()?, password_digest: text()? })
    }
}

/// With the digest of the server, or why not.
fn pong(outcome: Result<&str, &str>) -> Vec<u8> {
    let mut out = b"\x95\xa4PONG".to_vec();
    out.push(if outcome.is_ok() { 0xc3 } else { 0xc2 });
    put_text(outcome.err().unwrap_or_default(), &mut out);
    put_text(if outcome.is_ok() { SERVER_NAME } else { "" }, &mut out);
    put_text(outcome.unwrap_or_default(), &mut out);
    out
}

/// Of fewer than 256 bytes.
fn put_text(text: &str, out: &mut Vec<u8>) {
    match text.len() as u8 {
        bytes @ 0..=31 => out.push(0xa0 | bytes),
        bytes => out.extend_from_slice(&[0xd9, bytes]),
    }
    out.extend_from_slice(text.as_bytes());
}

fn put_bytes(bytes: &[u8; SALT_BYTES], out: &mut Vec<u8>) {
    out.extend_from_slice(&[0xc4, SALT_BYTES as u8]);
    out.extend_from_slice(bytes);
}

/// The digest of these parts, one behind another, in hexadecimal.
fn hex(parts: &[&[u8]]) -> String {
    let mut digest = Context::new(&SHA512);
    parts.iter().for_each(|part| digest.update(part));
    digest.finish().as_ref().iter().fold(String::new(), |mut text, byte| {
        // A String cannot fail.
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// Whether a digest is that of these parts. How long that takes does not depend on how much of it matches.
fn is_same(parts: &[&[u8]], shown: &[u8]) -> bool {
    hex(parts).as_bytes().ct_eq(shown).into()
}

#[cfg(test)]
mod tests {
    use super::super::find::Finder;
    use super::super::message::Message;
    use super::super::testing::{Value, packed};
    use super::*;

    const CHALLENGE: Challenge = Challenge { nonce: *b"nonce-0123456789", auth: None };
    const WITH_USERS: Challenge = Challenge { auth: Some(*b"auth--0123456789"), ..CHALLENGE };

    /// A PING as a client makes it.
    fn ping(challenge: &Challenge, key: &str, user: &str, password: &str) -> Vec<u8> {
        let auth = challenge.auth.as_ref().map_or(&[][..], |auth| auth);
        let of_key = hex(&[b"salt", b"client", &challenge.nonce, key.as_bytes()]);
        let of_password = hex(&[auth, user.as_bytes(), password.as_bytes()]);
        let texts = ["PING", "client", "salt", of_key.as_str(), user, &of_password];
        packed(&Value::Array(texts.into_iter().map(Value::text).collect()))
    }

    fn check(challenge: &Challenge, ping: &[u8]) -> Result<Vec<u8>, (Refused, Vec<u8>)> {
        let found = Finder::new(10_000).find(ping).unwrap().unwrap();
        let Ok(Message::Ping(ping)) = Message::read(ping, found) else { panic!("no PING") };
        challenge.check(&ping, "the key", |user| (user == "till").then_some("secret"))
    }

    #[test]
    fn a_client_with_the_key_may_send_and_can_check_the_server() {
        let pong = check(&CHALLENGE, &ping(&CHALLENGE, "the key", "", "")).unwrap();
        let digest = hex(&[b"salt", b"bbq", &CHALLENGE.nonce, b"the key"]);
        let texts = [Value::text("PONG"), Value::Bool(true), Value::text(""), Value::text("bbq")];
        let mut expected = packed(&Value::Array([&texts[..], &[Value::text("d")]].concat()));
        expected.truncate(expected.len() - 2);
        expected.extend_from_slice(&[0xd9, 128]);
        expected.extend_from_slice(digest.as_bytes());
        assert_eq!(pong, expected);
        assert!(check(&WITH_USERS, &ping(&WITH_USERS, "the key", "till", "secret")).is_ok());
    }

    #[test]
    fn a_wrong_key_or_password_is_refused() {
        let refused = |challenge: &Challenge, ping: &[u8]| check(challenge, ping).unwrap_err();
        let (why, pong) = refused(&CHALLENGE, &ping(&CHALLENGE, "other key", "", ""));
        assert_eq!(why, Refused::Key);
        assert_eq!(pong, b"\x95\xa4PONG\xc2\xb3shared_key mismatch\xa0\xa0");
        let old = Challenge { nonce: [0; 16], ..CHALLENGE };
        assert_eq!(
            refused(&CHALLENGE, &ping(&old, "the key", "", "")).0,
            Refused::Key,
            "an answer to another HELO"
        );
        for (user, password) in [("till", "wrong"), ("nobody", ""), ("", ""), ("till", "")] {
            let (why, _) = refused(&WITH_USERS, &ping(&WITH_USERS, "the key", user, password));
            assert_eq!(why, Refused::User, "{user}");
        }
    }

    #[test]
    fn the_helo_says_whether_there_are_users() {
        let helo = CHALLENGE.helo();
        assert_eq!(helo, b"\x92\xa4HELO\x83\xa5nonce\xc4\x10nonce-0123456789\xa4auth\xa0\xa9keepalive\xc3");
        assert!(WITH_USERS.helo().ends_with(b"\xa4auth\xc4\x10auth--0123456789\xa9keepalive\xc3"));
    }
}
