//! A client of the Forward Protocol for tests: an encoder of MessagePack, and a connection.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use flate2::Compression;
use flate2::write::GzEncoder;
use ring::digest::{Context, SHA512};

use crate::support::{PATIENCE, Setup};

/// Bytes of MessagePack.
pub(super) type Packed = Vec<u8>;

pub(super) fn text(text: &str) -> Packed {
    let mut out = vec![0xdb];
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
    out
}

pub(super) fn bytes(content: &[u8]) -> Packed {
    let mut out = vec![0xc6];
    out.extend_from_slice(&(content.len() as u32).to_be_bytes());
    out.extend_from_slice(content);
    out
}

pub(super) fn number(number: u64) -> Packed {
    [&[0xcf][..], &number.to_be_bytes()].concat()
}

/// EventTime.
pub(super) fn time(seconds: u32, nanoseconds: u32) -> Packed {
    [&[0xd7, 0x00][..], &seconds.to_be_bytes(), &nanoseconds.to_be_bytes()].concat()
}

pub(super) fn array(values: &[Packed]) -> Packed {
    let mut out = vec![0xdd];
    out.extend_from_slice(&(values.len() as u32).to_be_bytes());
    values.iter().for_each(|value| out.extend_from_slice(value));
    out
}

pub(super) fn map(pairs: &[(&str, Packed)]) -> Packed {
    let mut out = vec![0xdf];
    out.extend_from_slice(&(pairs.len() as u32).to_be_bytes());
    for (key, value) in pairs {
        out.extend_from_slice(&text(key));
        out.extend_from_slice(value);
    }
    out
}

/// An entry whose message is this text.
pub(super) fn entry(message: &str) -> Packed {
    array(&[time(1_700_000_000, 5), map(&[("log", text(message)), ("source", text("stdout"))])])
}

/// An option with a chunk.
pub(super) fn chunk(name: &str) -> Packed {
    map(&[("chunk", text(name))])
}

/// The entries of these messages, one after another.
pub(super) fn packed<'a>(messages: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    messages.into_iter().flat_map(entry).collect()
}

pub(super) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).expect("a Vec");
    encoder.finish().expect("a Vec")
}

pub(super) fn sha512(parts: &[&[u8]]) -> String {
    let mut digest = Context::new(&SHA512);
    parts.iter().for_each(|part| digest.update(part));
    digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A connection.
pub(super) struct Client(pub TcpStream);

impl Client {
    pub(super) fn new(setup: &Setup) -> Client {
        Client::of(setup, 0)
    }

    /// At the listener with this index.
    pub(super) fn of(setup: &Setup, listener: usize) -> Client {
        let stream = TcpStream::connect(setup.address(listener)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Client(stream)
    }

    pub(super) fn send(&mut self, message: &[u8]) {
        self.0.write_all(message).expect("it reads");
    }

    /// Sends a message with a chunk; `false` if the server closes the connection instead of acknowledging it.
    pub(super) fn acknowledged(&mut self, message: &[u8], name: &str) -> bool {
        let expected = [b"\x81\xa3ack", &text(name)[..]].concat();
        let mut answer = vec![0; expected.len()];
        let answered = self.0.write_all(message).and_then(|()| self.0.read_exact(&mut answer));
        assert!(answered.is_err() || answer == expected, "another answer: {answer:02x?}");
        answered.is_ok()
    }

    /// What the server sends until it ends the connection.
    pub(super) fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset is an end, too.
        let _ended = self.0.read_to_end(&mut rest);
        rest
    }

    /// Reads the HELO, and returns its nonce and its salt of passwords.
    pub(super) fn helo(&mut self) -> (Vec<u8>, Vec<u8>) {
        let mut helo = vec![0; 13 + 18 + 5];
        self.0.read_exact(&mut helo).expect("a HELO");
        assert_eq!(&helo[..15], b"\x92\xa4HELO\x83\xa5nonce\xc4\x10");
        let nonce = helo[15..31].to_vec();
        assert_eq!(&helo[31..], b"\xa4auth");
        let mut first = [0];
        self.0.read_exact(&mut first).expect("a salt");
        let mut auth = vec![0; if first == [0xc4] { 17 } else { 0 }];
        self.0.read_exact(&mut auth).expect("a salt");
        let mut keepalive = [0; 11];
        self.0.read_exact(&mut keepalive).expect("the rest");
        assert_eq!(&keepalive, b"\xa9keepalive\xc3");
        (nonce, auth.get(1..).unwrap_or_default().to_vec())
    }

    /// Shows a key and a user. Returns whether the client may send.
    pub(super) fn ping(&mut self, key: &str, (user, password): (&str, &str)) -> bool {
        let (nonce, auth) = self.helo();
        let of_key = sha512(&[b"salt", b"client", &nonce, key.as_bytes()]);
        let of_password = sha512(&[&auth, user.as_bytes(), password.as_bytes()]);
        let texts = ["PING", "client", "salt", &of_key, user, &of_password].map(text);
        self.send(&array(&texts));
        let mut pong = [0; 7];
        self.0.read_exact(&mut pong).expect("a PONG");
        assert_eq!(&pong[..6], b"\x95\xa4PONG");
        if pong[6] != 0xc3 {
            return false;
        }
        let of_server = sha512(&[b"salt", b"bbq", &nonce, key.as_bytes()]);
        let expected = [b"\xa0\xa3bbq\xd9\x80", of_server.as_bytes()].concat();
        let mut rest = vec![0; expected.len()];
        self.0.read_exact(&mut rest).expect("a PONG");
        assert_eq!(rest, expected);
        true
    }
}
