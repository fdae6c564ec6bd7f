//! Senders whose server is reached by TLS. One program, as each program costs seconds to link.

#![expect(clippy::unwrap_used, reason = "a test's helpers panic, too")]

#[path = "../support/authority.rs"]
mod authority;
mod certificates;
mod connections;
mod files;
mod other_peers;
#[path = "../support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use support::Setup;

type TlsStream = StreamOwned<ServerConnection, std::net::TcpStream>;

/// Accepts a connection and begins TLS on it; the handshake runs with the first read or write.
fn accept(setup: &Setup, server: &Arc<ServerConfig>) -> TlsStream {
    let socket = support::accept(&setup.listener);
    StreamOwned::new(ServerConnection::new(Arc::clone(server)).unwrap(), socket)
}

/// Accepts a connection, and reads and answers until the client has left.
fn serve_until_left(setup: &Setup, server: &Arc<ServerConfig>) {
    let mut stream = accept(setup, server);
    // Either side may end it.
    let _ended = stream.read_to_end(&mut Vec::new());
    let _told = stream.flush();
}
