//! POST requests over connections that stay open, each with one on its way: a closed loop. The body is made once, and is the same in every request.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::Context;

use super::http::ANSWER_BYTES_MAX;
use super::source::Sources;
use super::window::{Clients, Dialogue, Heard, Window};

const LENGTH: &[u8] = b"content-length:";

/// What is posted, and by how many.
#[derive(Debug, Clone)]
pub(crate) struct Posts {
    /// Head and body.
    request: Arc<[u8]>,
    connections: usize,
    /// Messages of a request, and the bytes of each without what is around it.
    pub(crate) messages: u64,
    pub(crate) message_bytes: u64,
}

impl Posts {
    /// So many `messages`, of so many bytes each, are in the body.
    pub(crate) fn new(
        (path, content_type): (&str, &str),
        body: &[u8],
        (messages, message_bytes): (u64, u64),
        connections: usize,
    ) -> Posts {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Posts { request: [head.as_bytes(), body].concat().into(), connections, messages, message_bytes }
    }

    /// Connects all of them, for so many threads.
    pub(crate) fn connect(&self, server: SocketAddrV4, threads: usize) -> anyhow::Result<Clients<Poster>> {
        let sources = Sources::new()?;
        let window = Window {
            waiting: Some(1),
            per_second: None,
            operations: self.messages,
            bytes: self.messages * self.message_bytes,
        };
        let open = |_| {
            let socket = sources.connect(server)?;
            socket.set_tcp_nodelay(true).context("TCP_NODELAY")?;
            Ok((OwnedFd::from(socket), Poster(Arc::clone(&self.request))))
        };
        Clients::new(threads.min(self.connections), window, (0..self.connections).map(open))
    }
}

/// One connection: the same request again and again, answers back.
pub(crate) struct Poster(Arc<[u8]>);

impl Dialogue for Poster {
    fn advance(&mut self) {}

    fn request(&self) -> &[u8] {
        &self.0
    }

    fn hear(&mut self, input: &[u8]) -> anyhow::Result<Heard> {
        let mut heard = Heard { used: 0, requests: 0 };
        while let Some(bytes) = answer(&input[heard.used..])? {
            heard.used += bytes;
            heard.requests += 1;
        }
        Ok(heard)
    }
}

/// The bytes of the first answer, which must be a 200; none if it is not there whole.
fn answer(input: &[u8]) -> anyhow::Result<Option<usize>> {
    let said = || String::from_utf8_lossy(&input[..input.len().min(ANSWER_BYTES_MAX)]).into_owned();
    let Some(head) = memchr::memmem::find(input, b"\r\n\r\n") else {
        anyhow::ensure!(input.len() < ANSWER_BYTES_MAX, "an answer without an end: {:?}", said());
        return Ok(None);
    };
    anyhow::ensure!(input.starts_with(b"HTTP/1.1 200 "), "the answer is {:?}", said());
    let length = input[..head].split(|byte| *byte == b'\n').find_map(|line| {
        let (name, value) = line.split_at_checked(LENGTH.len())?;
        name.eq_ignore_ascii_case(LENGTH)
            .then(|| std::str::from_utf8(value).ok()?.trim().parse::<usize>().ok())?
    });
    let length = length.with_context(|| format!("an answer without a length: {:?}", said()))?;
    anyhow::ensure!(length < ANSWER_BYTES_MAX, "the answer is too long: {:?}", said());
    let bytes = head + 4 + length;
    Ok((input.len() >= bytes).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_and_what_is_cut_is_left() {
        let empty = &b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"[..];
        let full = &b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length:  5\r\n\r\nhello"[..];
        let both = [empty, full].concat();
        let mut poster = Poster(Arc::new([]));
        let mut heard = |input: &[u8]| poster.hear(input).map(|heard| (heard.used, heard.requests));
        assert_eq!(heard(&both).unwrap(), (both.len(), 2));
        for cut in 0..both.len() {
            let expected = if cut < empty.len() { (0, 0) } else { (empty.len(), 1) };
            assert_eq!(heard(&both[..cut]).unwrap(), expected, "{cut}");
        }
    }

    #[test]
    fn what_is_no_200_is_an_error() {
        for input in [
            "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n",
        ] {
            assert!(answer(input.as_bytes()).is_err(), "{input}");
        }
        assert!(answer(&[b'x'; ANSWER_BYTES_MAX]).is_err());
    }
}
