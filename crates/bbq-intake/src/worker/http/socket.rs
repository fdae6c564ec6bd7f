//! What HTTP connections are made of: sockets of tokio, plain or with TLS.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// A connection's bytes.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin + 'static {
    /// Whether another worker or process can go on with it. The state of TLS stays where it is.
    const MOVES: bool;

    /// Takes it out of the runtime.
    ///
    /// # Errors
    /// It does not move, or epoll refuses to let go of it.
    fn into_socket(self) -> io::Result<OwnedFd>;
}

impl Socket for TcpStream {
    const MOVES: bool = true;

    fn into_socket(self) -> io::Result<OwnedFd> {
        self.into_std().map(OwnedFd::from)
    }
}

impl Socket for UnixStream {
    const MOVES: bool = true;

    fn into_socket(self) -> io::Result<OwnedFd> {
        self.into_std().map(OwnedFd::from)
    }
}

impl Socket for TlsStream<TcpStream> {
    const MOVES: bool = false;

    fn into_socket(self) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
