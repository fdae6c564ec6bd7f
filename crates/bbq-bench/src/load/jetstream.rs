//! Publishers of NATS JetStream: each message names a place for its acknowledgement, which says that it is stored.
//!
//! As little of the NATS protocol as that takes, and with no message identifier, so that the server does not look for
//! duplicates either.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;

use anyhow::Context;
use serde_json::{Value, json};

use super::pipe::{READ_BYTES, receive, send_all};
use super::source::Sources;
use super::window::{Clients, Dialogue, Heard, SILENCE_MAX, Window};

/// The subject, and the stream that keeps what is published on it.
const SUBJECT: &str = "bench";
/// A line of the server's is at most INFO, of some hundred bytes; what has so many and no end is none.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// Who publishes how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Publishers {
    pub(crate) server: SocketAddrV4,
    pub(crate) threads: usize,
    pub(crate) connections: usize,
    pub(crate) message_bytes: usize,
    /// Messages of one connection that wait for their acknowledgement.
    pub(crate) window: usize,
}

impl Publishers {
    /// Makes a stream in files, and connects all of them.
    pub(crate) fn connect(&self) -> anyhow::Result<Clients<Publisher>> {
        let sources = Sources::new()?;
        make_stream(self.server, &sources)?;
        let window = Window {
            waiting: Some(self.window),
            per_second: None,
            operations: 1,
            bytes: self.message_bytes as u64,
        };
        let open = |index| {
            let inbox = format!("_INBOX.{index}");
            let stream = open(self.server, &sources, &inbox)?;
            let message: String = ('a'..='z').cycle().take(self.message_bytes).collect();
            let publication = format!("PUB {SUBJECT} {inbox} {}\r\n{message}\r\n", self.message_bytes);
            Ok((stream, Publisher { publication: publication.into_bytes() }))
        };
        Clients::new(self.threads, window, (0..self.connections).map(open))
    }
}

/// Connects, and asks for what comes to `inbox`.
fn open(server: SocketAddrV4, sources: &Sources, inbox: &str) -> anyhow::Result<OwnedFd> {
    let socket = sources.connect(server)?;
    socket.set_tcp_nodelay(true).context("TCP_NODELAY")?;
    socket.set_read_timeout(Some(SILENCE_MAX)).context("SO_RCVTIMEO")?;
    let stream = OwnedFd::from(socket);
    let hello = format!("CONNECT {{\"verbose\":false,\"pedantic\":false}}\r\nSUB {inbox} 1\r\nPING\r\n");
    send_all(&stream, hello.as_bytes())?;
    // INFO comes first, unasked.
    let mut input = Vec::new();
    while !input.ends_with(b"PONG\r\n") {
        receive(&stream, &mut input)?;
        ensure_no_error(&input)?;
    }
    Ok(stream)
}

fn make_stream(server: SocketAddrV4, sources: &Sources) -> anyhow::Result<()> {
    let stream = open(server, sources, "_INBOX.made")?;
    let wanted = json!({
        "name": SUBJECT, "subjects": [SUBJECT], "storage": "file", "retention": "limits", "discard": "old",
        "num_replicas": 1, "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0,
    })
    .to_string();
    let request = format!("PUB $JS.API.STREAM.CREATE.{SUBJECT} _INBOX.made {}\r\n{wanted}\r\n", wanted.len());
    send_all(&stream, request.as_bytes())?;
    let mut input = Vec::new();
    loop {
        receive(&stream, &mut input)?;
        if let Some(Frame { payload: Some(answer), .. }) = frame(&input)? {
            let answer: Value = serde_json::from_slice(answer).context("JetStream's answer is not JSON")?;
            let storage = &answer["config"]["storage"];
            anyhow::ensure!(storage == "file", "JetStream made no stream in files: {answer}");
            return Ok(());
        }
    }
}

/// One connection: the same message again and again, acknowledgements back.
pub(crate) struct Publisher {
    publication: Vec<u8>,
}

impl Dialogue for Publisher {
    fn advance(&mut self) {}

    fn request(&self) -> &[u8] {
        &self.publication
    }

    fn hear(&mut self, input: &[u8]) -> anyhow::Result<Heard> {
        let mut heard = Heard { used: 0, requests: 0 };
        while let Some(frame) = frame(&input[heard.used..])? {
            heard.used += frame.bytes;
            let Some(payload) = frame.payload else { continue };
            // {"stream":"bench","seq":7}, or {"error":{...},...}.
            let is_stored = memchr::memmem::find(payload, b"\"seq\":").is_some()
                && memchr::memmem::find(payload, b"\"error\"").is_none();
            anyhow::ensure!(is_stored, "not stored: {}", String::from_utf8_lossy(payload));
            heard.requests += 1;
        }
        Ok(heard)
    }
}

/// What the server says in one piece: a line, and behind that of a message the message.
struct Frame<'a> {
    bytes: usize,
    payload: Option<&'a [u8]>,
}

/// The first of `input`; none if it is not there whole.
fn frame(input: &[u8]) -> anyhow::Result<Option<Frame<'_>>> {
    let Some(end) = memchr::memchr(b'\n', input) else {
        anyhow::ensure!(input.len() < LINE_BYTES_MAX, "a line of more than {LINE_BYTES_MAX} bytes came");
        return Ok(None);
    };
    let line = input[..end].trim_ascii_end();
    ensure_no_error(line)?;
    // MSG subject subscription bytes. Else PING, of which two may stay unanswered, and they come minutes apart.
    let Some(message) = line.strip_prefix(b"MSG ") else {
        return Ok(Some(Frame { bytes: end + 1, payload: None }));
    };
    let length = message.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let length: usize = std::str::from_utf8(length)
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|length| *length <= READ_BYTES)
        .with_context(|| format!("not a message: {}", String::from_utf8_lossy(line)))?;
    let bytes = end + 1 + length + 2;
    let payload = input.get(end + 1..end + 1 + length);
    Ok((input.len() >= bytes).then_some(Frame { bytes, payload }))
}

fn ensure_no_error(said: &[u8]) -> anyhow::Result<()> {
    let is_error = said.starts_with(b"-ERR") || memchr::memmem::find(said, b"\n-ERR").is_some();
    anyhow::ensure!(!is_error, "the server said {}", String::from_utf8_lossy(said));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(input: &[u8]) -> anyhow::Result<Heard> {
        Publisher { publication: Vec::new() }.hear(input)
    }

    #[test]
    fn acknowledgements_are_counted_and_what_is_cut_is_left() {
        let whole =
            b"MSG _INBOX.0 1 26\r\n{\"stream\":\"bench\",\"seq\":7}\r\nPING\r\nMSG _INBOX.0 1 26\r\n{\"stream\":\"bench\",\"seq\":8}\r\n";
        let heard = hear(whole).unwrap();
        assert_eq!((heard.used, heard.requests), (whole.len(), 2));
        let first = 19 + 26 + 2;
        for cut in 0..first {
            assert_eq!(hear(&whole[..cut]).unwrap().used, 0, "{cut}");
        }
        let heard = hear(&whole[..whole.len() - 1]).unwrap();
        assert_eq!((heard.used, heard.requests), (first + 6, 1));
    }

    #[test]
    fn what_is_not_stored_is_an_error() {
        for input in [
            "-ERR 'Authorization Violation'\r\n",
            "MSG _INBOX.0 1 30\r\n{\"error\":{\"code\":503},\"seq\":0}\r\n",
            "MSG _INBOX.0 1 2\r\n{}\r\n",
            "MSG _INBOX.0 1 many\r\n",
            "MSG _INBOX.0 1 99999999\r\n",
        ] {
            assert!(hear(input.as_bytes()).is_err(), "{input}");
        }
    }
}
