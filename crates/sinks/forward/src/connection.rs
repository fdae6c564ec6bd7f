//! One connection to a server, by any of its addresses.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use bbq_sink::Resolver;
use bbq_tls::{ClientTls, Connected, Failure, TlsConnector};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

use super::address::{Address, HostPort};
use super::addresses::{connect_to_any, in_time};

/// What to write in place of an address with TLS.
const PLAIN: &str = "write bbq:// for a server without TLS";

/// Makes connections.
pub(super) struct Connector {
    resolver: Resolver,
    tls: TlsConnector,
}

/// An open connection.
pub(super) enum Connection {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Unix(UnixStream),
}

impl Connector {
    pub(super) fn new(resolver: Resolver, tls: ClientTls) -> Connector {
        Connector { resolver, tls: TlsConnector::new(tls, PLAIN) }
    }

    /// Connects. With TLS, also returns what explains how the server answers.
    pub(super) async fn connect(&mut self, address: &Address) -> io::Result<(Connection, Option<Failure>)> {
        match address {
            Address::Tcp(place) => Ok((Connection::Tcp(self.tcp(place).await?), None)),
            Address::Tls(place, name) => {
                let socket = self.tcp(place).await?;
                let Connected { stream, failure } = self.tls.connect(socket, name.clone()).await?;
                Ok((Connection::Tls(Box::new(stream)), Some(failure)))
            }
            Address::Unix(path) => {
                let stream = in_time(UnixStream::connect(path)).await?;
                Ok((Connection::Unix(stream), None))
            }
        }
    }

    async fn tcp(&self, place: &HostPort) -> io::Result<TcpStream> {
        let addresses = in_time(self.resolver.resolve(&place.host)).await?.map(|mut address| {
            address.set_port(place.port);
            address
        });
        let stream = connect_to_any(addresses).await?;
        // TCP must not hold back the last bytes of a group until the bytes before them are acknowledged.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Connection::Tcp(stream) => stream.as_fd(),
            Connection::Tls(stream) => stream.get_ref().0.as_fd(),
            Connection::Unix(stream) => stream.as_fd(),
        }
    }
}

/// Calls a method of the stream inside.
macro_rules! inside {
    ($connection:expr, $stream:ident => $call:expr) => {
        match $connection.get_mut() {
            Connection::Tcp($stream) => $call,
            Connection::Tls($stream) => $call,
            Connection::Unix($stream) => $call,
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        inside!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        inside!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}
