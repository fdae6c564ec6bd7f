//! A client: one connection, one request, one answer.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

use crate::example::ANSWER_TIMEOUT;

/// What a client sends, and what an answer has in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    pub(crate) request: &'static [u8],
    pub(crate) answer: &'static [u8],
}

pub(crate) const HTTP: Exchange =
    Exchange { request: b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", answer: b"HTTP/1.1 200 " };

/// The message is on disk when it is answered.
pub(crate) const POST: Exchange = Exchange {
    request: b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\nConnection: close\r\n\r\nmessage",
    answer: b"HTTP/1.1 20",
};
pub(crate) const POST_KEPT: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\nmessage";

/// The health check of gRPC: preface and settings of HTTP/2, the head of a request (RFC 7541, B and C), and an empty message. The answer
/// has the message "serving".
pub(crate) const GRPC: Exchange = Exchange {
    request: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
        \x00\x00\x00\x04\x00\x00\x00\x00\x00\
        \x00\x00\x43\x01\x04\x00\x00\x00\x01\
        \x83\x86\x04\x1c/grpc.health.v1.Health/Check\x01\x01a\
        \x0f\x10\x10application/grpc\x00\x02te\x08trailers\
        \x00\x00\x05\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00",
    answer: b"\x00\x00\x00\x00\x02\x08\x01",
};

pub(crate) struct Client(TcpStream);

/// From one of 64 addresses: ports last longer.
pub(crate) fn connect(to: SocketAddr, index: usize) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 1, 1 + (index % 64) as u8), 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
    Client(stream)
}

impl Client {
    /// Returns `false` if the server has hung up.
    pub(crate) fn send(&mut self, exchange: &Exchange) -> bool {
        self.0.write_all(exchange.request).is_ok()
    }

    /// Whether the answer comes before the server hangs up.
    pub(crate) fn is_answered(&mut self, exchange: &Exchange) -> bool {
        let mut answer = Vec::new();
        let mut buffer = [0; 1024];
        while !answer.windows(exchange.answer.len()).any(|bytes| bytes == exchange.answer) {
            match self.0.read(&mut buffer) {
                Ok(0) => return false,
                Ok(length) => answer.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    pub(crate) fn ask(&mut self, exchange: &Exchange) -> bool {
        self.send(exchange) && self.is_answered(exchange)
    }
}
